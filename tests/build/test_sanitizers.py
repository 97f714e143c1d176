"""Under sanitizers, with planted faults: the engine, and how calls are split over threads."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire.ref.models import gguf_file, probe

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = ROOT / "ci/sanitizers.py"
ENGINES = ROOT / "tests/engines"
TARGET = "native:probe,n_layers=4,n_vocab=128,n_ctx=32,n_seqs=4,threads=2"


def built(kind):
    """libhotfire_mutants under sanitizers, as `ci/sanitized` has it."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc's sanitizers")
    done = subprocess.run(
        [sys.executable, SANITIZERS, "build", kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def library():
    return built("address")


def run(*words, kind="address"):
    """Runs Python with the sanitizers' libraries before all others."""
    return subprocess.run(
        [sys.executable, SANITIZERS, "run", kind, sys.executable, *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False,
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


def props(library, tmp_path, operation, fault=""):
    """A property that writes NaN into neighbours, on plain C++."""
    words = ("--variant", "scalar", "--property", "neighbours_are_invisible", "--timeout", 60)
    provider = f"hotfire-mutants:{fault}@{library}"
    words = (operation, *words, "--provider", provider, "--replay", tmp_path / "replay")
    return run("-m", "hotfire", "props", "run", *words)


@pytest.mark.parametrize("operation", ["silu", "quantize_q8_0"])
def test_nan_becomes_no_integer(library, tmp_path, operation):
    """Neither an exponent nor a code: such a conversion is undefined."""
    done = props(library, tmp_path, operation)
    assert done.returncode == 0, done.stderr


def test_undefined_behaviour_rings(library, tmp_path):
    """The canary: a signed sum that overflows ends the call, and is named."""
    done = props(library, tmp_path, "matvec_f32", "threads_sum_overflow")
    assert done.returncode == 1
    assert "runtime error: signed integer overflow" in done.stderr
    assert "SUMMARY: UndefinedBehaviorSanitizer" in done.stderr


CALLS = """
import sys
import numpy as np
from hotfire.props.execute import Broken, Subject, execute
from hotfire.props.case import draw_inputs, parse
from hotfire.props.runner import Runner
from hotfire.ref.registry import operation

op = operation("matvec_f32")
case = parse(op, "n_rows=24,n_cols=8,fill=normal,seed=0,side=end")
inputs = draw_inputs(op, case)
with Runner(sys.argv[1], seconds=60) as runner:
    subject = Subject(runner, next(k for k in runner.kernels if k.operation == op.name), op)
    for _ in range(10):
        try:
            execute(subject, case, inputs.stored, inputs.scalars)
            print("passed")
        except Broken as broken:
            print(broken.status.value)
"""


@pytest.mark.parametrize(
    ("fault", "most_are"), [("", "passed"), ("threads_parts_overlap", "crashed")]
)
def test_parts_that_overlap_are_seen_in_a_single_call(fault, most_are):
    """Small calls are over before a second thread wakes, unless it is waited for. A machine that is
    busy may let one call slip.
    """
    done = run("-c", CALLS, f"hotfire-mutants:{fault}@{built('thread')}", kind="thread")
    if "addresses that are not random" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert len(said) == 10
    assert said.count(most_are) >= (9 if fault else 10), done.stdout
    assert done.stderr.count("ThreadSanitizer: data race") >= said.count("crashed")
