"""Real bindings of real libraries, as their packages ship them."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire.abi import check, probe, sources
from hotfire.abi.sources import Reading

from . import subjects
from .conftest import FIXTURES

pytestmark = pytest.mark.subjects


@pytest.fixture(scope="module")
def ik_llama() -> Path:
    requirement = "ik-llama-cpp-python==0.1.5"
    return subjects.wheel(requirement, "ik_llama_cpp/_", "include/", "ik_llama_cpp/lib/libllama")


@pytest.fixture(scope="module")
def llama_cpp_python() -> Path:
    folder = subjects.sdist(
        "llama-cpp-python",
        "0.3.36",
        "/llama_cpp/",
        "llama.cpp/include/",
        "ggml/include/",
        "mtmd/mtmd",
    )
    return folder / "llama_cpp_python-0.3.36"


def test_binding_of_one_build_is_clean(ik_llama: Path) -> None:
    """Header, library and ctypes binding of one build: nothing gates."""
    verdict = check.check(
        [ik_llama / "include/llama.h"],
        [f"ctypes:{ik_llama / 'ik_llama_cpp/_ctypes_api.py'}"],
        Reading(),
        library=ik_llama / "ik_llama_cpp/lib/libllama.so",
    )
    assert [found.message for found in verdict.findings if found.severity.gates] == []
    assert verdict.status == "passed"
    assert verdict.measurements["n_records_compared"] >= 7
    assert verdict.measurements["n_functions_compared"] >= 30


def llama_headers(root: Path) -> tuple[list[Path], Reading]:
    vendored = root / "vendor/llama.cpp"
    names = ["include/llama.h", "tools/mtmd/mtmd.h", "tools/mtmd/mtmd-helper.h"]
    reading = Reading(include=(vendored / "include", vendored / "ggml/include"))
    return [vendored / name for name in names], reading


def test_drift_of_a_released_binding_is_found_and_true(llama_cpp_python: Path) -> None:
    """Its gate findings are the committed list, and the C compiler confirms each."""
    headers, reading = llama_headers(llama_cpp_python)
    library = sources.read_headers(headers, reading)
    gating = []
    for name in ("llama_cpp", "mtmd_cpp"):
        mirror = sources.read(f"ctypes:{llama_cpp_python / 'llama_cpp' / name}.py", reading)
        library = sources.read_headers(headers, reading, mirror.names())
        found = check.judged(name, mirror, library).findings
        confirmed = probe.confirm(found, mirror, library, headers, reading)
        assert set(confirmed) == {i for i, f in enumerate(found) if f.severity.gates}
        assert all(confirmed.values())
        gating += [f.to_json() for f in found if f.severity.gates]
    shown = [{k: f[k] for k in f if k not in ("message", "remedy", "location")} for f in gating]
    unique = [f for at, f in enumerate(shown) if f not in shown[:at]]
    assert unique == json.loads((FIXTURES / "llama_cpp_python_0.3.36.json").read_text())


def test_check_of_a_released_binding_takes_two_seconds_at_most(llama_cpp_python: Path) -> None:
    """From start to exit, children included."""
    headers, reading = llama_headers(llama_cpp_python)
    words = ["abi", "check", "--header", headers[0], "--mirror"]
    words += [f"ctypes:{llama_cpp_python / 'llama_cpp/llama_cpp.py'}", "--format", "json"]
    words += [f"-I{folder}" for folder in reading.include]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "hotfire", *words], capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 1, done.stderr
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent <= 2.0
    severities = {f["rule"]: f["severity"] for f in json.loads(done.stdout)["findings"]}
    assert severities["BY_VALUE_ABI"] == "memory-unsafe"
