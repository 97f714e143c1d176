"""The engine under AddressSanitizer and UndefinedBehaviorSanitizer, with planted faults."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire import lib
from hotfire.ref.models import gguf_file, probe

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
ENGINES = ROOT / "tests/engines"
FLAGS = "-O1 -g0 -fsanitize=address,undefined -fno-sanitize-recover=all"
TARGET = "native:probe,n_layers=4,n_vocab=128,n_ctx=32,n_seqs=4,threads=2"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """libhotfire_mutants, built with sanitizers; the table of layouts is the shipped one's."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc's sanitizers")
    build = tmp_path_factory.mktemp("sanitized")
    table = build / "hotfire_layout.inc"
    table.write_text(layout_table())
    for words in (
        ["-S", ROOT / "native", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
         f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DHOTFIRE_LAYOUT_INC={table}",
         f"-DCMAKE_CXX_FLAGS={FLAGS}"],
        ["--build", build, "--target", "hotfire_mutants"],
    ):  # fmt: skip
        done = subprocess.run(
            [str(TOOLS / "cmake"), *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return build / lib.MUTANTS


def layout_table():
    """Lines of the layout table, written from the manifest that the build left."""
    from hotfire.abi import layout
    from hotfire.abi.manifest import Manifest

    return layout.initialisers(Manifest.read(lib.path(lib.CORE).with_name("hotfire.manifest.json")))


def run(*words):
    """Runs Python with the sanitizers' libraries before all others."""
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:verify_asan_link_order=0",
    }
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_nothing_is_written_past_a_buffer_at_the_context_s_edge(library):
    done = run(ENGINES / "edges.py", f"{TARGET},lib={library}")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen) == 24
    assert all(status == (past == 1) and same for _, _, past, status, same in seen)


@pytest.mark.parametrize("fault", ["writes_past_state", "writes_past_rows"])
def test_the_sanitizer_rings(library, fault):
    """The canaries: one byte past a sequence's state, and past the caller's rows."""
    done = run(ENGINES / "edges.py", f"{TARGET},lib={library},fault={fault}")
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr


def test_damaged_files_do_no_harm(library):
    done = run(ENGINES / "fuzz_files.py", 1, 300, library)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n_experts", [0, 20])
def test_a_hostile_caller_does_no_harm(library, tmp_path, n_experts):
    """Misaligned arrays, crafted states with a right checksum, going back everywhere."""
    sizes = {"n_layers": 2, "interval": 2, "n_embd": 16, "n_ff": 32, "n_vocab": 16}
    config = probe.config({**sizes, "n_experts": n_experts})
    gguf_file.write(tmp_path / "model.gguf", config, probe.weights(config, 0), "f32")
    done = run(ENGINES / "hostile.py", tmp_path / "model.gguf", library)
    assert done.returncode == 0, done.stderr
