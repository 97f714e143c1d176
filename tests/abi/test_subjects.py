"""Real bindings of real libraries, as their packages ship them."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.abi import check, probe, sources, wheel
from hotfire.abi.manifest import dump
from hotfire.abi.readers import paint
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
        check.Options(library=ik_llama / "ik_llama_cpp/lib/libllama.so"),
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


@pytest.fixture(scope="module")
def hip_headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Debian's HIP 5.2.3 headers, from the system or from the package."""
    if Path("/usr/include/hip/hip_runtime_api.h").is_file():
        folder = tmp_path_factory.mktemp("include")
        (folder / "hip").symlink_to("/usr/include/hip")
        return folder
    return subjects.debian("libamdhip64-dev") / "usr/include"


@pytest.fixture(scope="module")
def hip_python() -> list[Path]:
    version = "10.0.0.0.1.2"
    return [subjects.wheel(f"rocm-bindings-{part}=={version}", "rocm/") for part in ("core", "hip")]


@pytest.mark.parametrize("runtime", ["with the runtime", "without the runtime"])
def test_accessor_only_binding_is_read_by_poking(
    runtime: str,
    hip_headers: Path,
    hip_python: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """hip-python against HIP 5.2.3: the device properties and the renumbered enums are found."""
    if runtime == "with the runtime":
        found = [p for p in Path("/usr/lib").rglob("libamdhip64.so.5*") if p.is_file()]
        if not found:
            pytest.skip("Debian's HIP runtime is not installed")
        monkeypatch.setenv("LD_PRELOAD", str(found[0]))
    monkeypatch.setattr(sys, "path", [*map(str, hip_python), *sys.path])
    reading = Reading(include=(hip_headers,), defines=("__HIP_PLATFORM_AMD__",))
    library = sources.read_headers([hip_headers / "hip/hip_runtime_api.h"], reading)
    mirror = sources.read("accessor:rocm.bindings.hip", reading, library.names())
    found = check.judged("hip-python", mirror, library).findings
    said = {(f.rule, f.subject.get("record") or f.subject.get("constant")) for f in found}
    assert ("RECORD_SIZE", "hipDeviceProp_t") in said
    for name in ("hipMemoryTypeHost", "hipMemoryTypeDevice", "hipGraphNodeTypeEmpty"):
        assert ("ENUM_VALUE", name) in said
    assert mirror.records["hipDeviceProp_t"].size == 1472
    confirmed = probe.confirm(
        found, mirror, library, [hip_headers / "hip/hip_runtime_api.h"], reading
    )
    assert len(confirmed) >= 100
    assert all(confirmed.values()), [
        found[i].message for i, right in confirmed.items() if not right
    ]


def test_wheel_that_breaks_its_promise_is_told_from_the_elf_alone() -> None:
    """A manylinux2014 wheel whose library needs glibc 2.38; nothing is loaded."""
    requirement = "llama-cpp-py-sync==0.11739"
    subjects.wheel(requirement, "nothing")
    path = next((subjects.CACHE / requirement).glob("*.whl"))
    found = wheel.check(path)
    said = [f.subject for f in found.findings if f.subject["file"].endswith("/libllama.so")]
    assert found.status == "failed"
    assert {"needs": "GLIBC_2.38", "mirror": "2.17"}.items() <= said[0].items()


def test_wheel_that_keeps_its_promise_passes() -> None:
    """The wheel of one build claims glibc 2.28 and needs no more."""
    requirement = "ik-llama-cpp-python==0.1.5"
    subjects.wheel(requirement, "ik_llama_cpp/_", "include/", "ik_llama_cpp/lib/libllama")
    path = next((subjects.CACHE / requirement).glob("*.whl"))
    promised = [f for f in wheel.check(path).findings if "the tag" in f.message]
    assert promised == []


def test_painting_a_stripped_library_agrees_with_its_header(llama_cpp_python: Path) -> None:
    """libllama v0.5.0 without debug information: its default params are as long as the header's."""
    folder = (
        subjects.npm("@node-llama-cpp/linux-x64@3.22.1", "linux-x64/lib") / "package/bins/linux-x64"
    )
    headers, reading = llama_headers(llama_cpp_python)
    header = sources.read_headers(headers[:1], reading)
    candidates = paint.candidates(header)
    assert len(candidates) >= 3
    painted = paint.paint(folder / "libllama.v0.5.0.so", list(candidates))
    assert [f for f in paint.compare(header, painted) if f.severity.gates] == []
    for found in painted:
        record = header.records[candidates[found.function]]
        last = max(member.offset for member in header.flat_fields(record))
        assert last < found.extent <= record.size


TARGETS = [
    "x86_64-linux",
    "aarch64-linux",
    "i686-linux",
    "armv7-linux",
    "riscv64-linux",
    "ppc64le-linux",
    "s390x-linux",
    "wasm32-wasi",
    "x86_64-pc-windows-msvc",
    "arm64-apple-macos",
]


def test_ten_targets_take_four_seconds_and_are_reproducible(
    llama_cpp_python: Path, tmp_path: Path
) -> None:
    """Every target's manifest of the llama headers, and the same bytes from another folder."""
    headers, reading = llama_headers(llama_cpp_python)
    before = time.process_time()
    first = {
        target: dump(sources.read_headers(headers[:1], replace(reading, target=target)))
        for target in TARGETS
    }
    assert time.process_time() - before <= 4.0
    assert len({text.partition('"records"')[2] for text in first.values()}) > 1
    copied = tmp_path / "elsewhere"
    for folder in ("include", "ggml/include"):
        shutil.copytree(llama_cpp_python / "vendor/llama.cpp" / folder, copied / folder)
    moved = Reading(include=(copied / "include", copied / "ggml/include"))
    for target, text in first.items():
        again = sources.read_headers([copied / "include/llama.h"], replace(moved, target=target))
        assert dump(again) == text
