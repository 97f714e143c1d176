"""Fixtures of the property suites' own tests."""

import textwrap
from contextlib import ExitStack

import pytest

from hotfire.props.mutants import runner_of

ADAPTER = """
import ctypes
import numpy as np
from hotfire.props.provider import Kernel, Provider, Refused


def rows(call, name):
    shape = (call.sizes["n_rows"], call.sizes["n_cols"])
    count = shape[0] * shape[1]
    memory = (ctypes.c_float * count).from_address(call.pointers[name]) if count else []
    return np.frombuffer(memory, dtype=np.float32).reshape(shape) if count else np.empty(shape)


def softmax(call):
    x, y = rows(call, "x"), rows(call, "y")
    if not y.size:
        return
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    y[:] = weights / weights.sum(axis=1, keepdims=True)
    {fault}


def provide(argument):
    kernel = Kernel(operation="softmax", variant="numpy", call=softmax)
    return Provider(name=__file__, version="1", kernels=[kernel])
"""


@pytest.fixture
def adapter(tmp_path):
    """Writes a user's adapter of a numpy softmax with a fault of one's choice; gives its path."""

    def write(fault="pass"):
        path = tmp_path / "adapter.py"
        path.write_text(textwrap.dedent(ADAPTER).replace("{fault}", fault))
        return str(path)

    return write


@pytest.fixture(scope="module")
def runner_for():
    """One worker a library, lent to every hunt."""
    with ExitStack() as stack:
        runners = {}

        def lend(mutant):
            if mutant.library not in runners:
                runners[mutant.library] = stack.enter_context(runner_of(mutant))
            return runners[mutant.library]

        yield lend
