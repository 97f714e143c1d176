"""Kernels searched side by side give what they give one after another."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.errors import InputError
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
from hotfire.props.sweep import LEAST, check_kernels, n_jobs

NAMES = ("argmax", "l2_norm", "rms_norm", "silu", "softmax", "swiglu")

RAISES = """
from hotfire.props.provider import Kernel, Provider

def fail(call):
    raise ValueError("no such thing")

def provide(argument):
    kernels = [Kernel(operation="silu", variant=str(i), call=fail) for i in range(16)]
    return Provider(name="raises", version="1", kernels=kernels)
"""


def without_time(verdict):
    measured = {key: each for key, each in verdict.measurements.items() if key != "seconds"}
    return replace(verdict, measurements=measured)


def test_verdicts_are_the_same_in_the_same_order():
    """Two processes and one, cases and shapes included."""
    options = {"only": "refuses_mistakes", "seed": 5}
    with Runner("hotfire") as runner:
        kernels = list(kernels_of(runner, NAMES))
        assert len(kernels) >= 2 * LEAST
        alone, together = (
            [without_time(v) for v in check_kernels("hotfire", runner, kernels, jobs, **options)]
            for jobs in (1, 2)
        )
    assert together == alone
    assert all(each.measurements["n_cases"] for each in together)


def test_an_adapters_error_comes_through(tmp_path):
    """As the one clear error that it is, from another process too."""
    path = tmp_path / "raises.py"
    path.write_text(RAISES)
    with Runner(str(path)) as runner, pytest.raises(InputError, match="no such thing"):
        list(check_kernels(str(path), runner, runner.kernels, 2))


def test_kernels_on_a_device_take_turns():
    assert n_jobs("cuda:some.cubin") == 1
    assert n_jobs("hotfire") >= 1


def test_an_interrupt_ends_every_process_quietly(tmp_path):
    """What was completed is kept, and nothing else is said."""
    words = [sys.executable, "-m", "hotfire", "props", "run", "--jobs", "2"]
    command = subprocess.Popen(
        words,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for _ in range(600):
        if len(members(command.pid)) > 4:  # two processes beside it, and a worker of each
            break
        time.sleep(0.1)
    time.sleep(3)
    os.killpg(command.pid, signal.SIGINT)
    said, complaints = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "interrupted" in said
    assert complaints == ""
    for _ in range(100):
        if not members(command.pid):
            break
        time.sleep(0.1)
    assert not members(command.pid)


def members(session: int) -> list[int]:
    """Processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found
