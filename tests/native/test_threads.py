"""Contexts share nothing that changes; a context's own threads, and what a fork does to them."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hotfire import lib

from .conftest import Calls

N_CALLS = 300


def test_two_contexts_work_in_two_threads(library):
    """Each gives the bits that it gives alone, and keeps its own error text."""

    def work(seed: int) -> tuple[bytes, set[str]]:
        ffi, functions = library.ffi, library.lib
        x = np.random.default_rng(seed).standard_normal((16, 1000)).astype(np.float32)
        y = np.zeros_like(x)
        texts, results = set(), set()
        with lib.context(library, functions.HOTFIRE_ISA_AUTO) as execution:
            for _ in range(N_CALLS):
                operands = (ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", y))
                assert functions.hotfire_softmax(execution, *operands, *x.shape) == 0
                assert functions.hotfire_softmax(execution, *operands, -seed, 1) != 0
                texts.add(ffi.string(functions.hotfire_context_error(execution.context)).decode())
                results.add(y.tobytes())
        assert len(results) == 1
        return results.pop(), texts

    alone = [work(seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, (1, 2)))
    assert together == alone
    assert [texts for _, texts in together] == [
        {f"n_rows is -{seed}; expected 0 or more"} for seed in (1, 2)
    ]


@pytest.fixture
def threaded(library):
    """A product that is worth splitting, on a context of four threads."""
    weight = np.random.default_rng(1).standard_normal((512, 1024)).astype(np.float32)
    y = np.zeros(512, dtype=np.float32)
    with lib.context(library, library.lib.HOTFIRE_ISA_AUTO, n_threads=4) as execution:
        calls = Calls(library, execution)
        yield lambda: (calls("matvec_f32", weight, weight[0], y, *weight.shape), calls.error)


def n_threads():
    """Of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


def in_child(work):
    """Forks, and gives what `work` wrote there; a child that hangs is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        words = told.read()
    return words, os.waitpid(child, 0)[1]


def test_threads_come_with_the_first_call_and_go_with_the_context(library):
    """And not before, as a context may be made before a fork."""

    def work():
        counts = [n_threads()]
        weight, y = np.ones((512, 1024), dtype=np.float32), np.zeros(512, dtype=np.float32)
        with lib.context(library, library.lib.HOTFIRE_ISA_AUTO, n_threads=4) as execution:
            counts.append(n_threads())
            call = Calls(library, execution)
            for _ in range(50):
                assert call("matvec_f32", weight, weight[0], y, *weight.shape) == "ok"
            counts.append(n_threads())
        until = time.monotonic() + 10
        while n_threads() > 1 and time.monotonic() < until:
            time.sleep(0.001)  # a joined thread is listed a little longer
        assert (y == 1024).all()
        return str([*counts, n_threads()])

    assert in_child(work) == ("[1, 1, 4, 1]", 0)


def test_a_forked_child_is_refused(threaded):
    """It has none of the threads; the parent's go on."""
    assert threaded() == ("ok", "")
    assert in_child(lambda: "|".join(threaded())) == (
        "unsupported|the context's threads were started before a fork; "
        "expected a context of this process",
        0,
    )
    assert threaded() == ("ok", "")


def test_a_forked_child_may_start_threads_itself(threaded):
    """A context whose threads had not been started is as good as new."""
    assert in_child(lambda: "|".join(threaded())) == ("ok|", 0)


def test_a_context_of_the_parent_can_be_freed_in_a_child(library):
    """Nothing is waited for there."""
    with lib.context(library, library.lib.HOTFIRE_ISA_AUTO, n_threads=3) as execution:
        call = Calls(library, execution)
        x = np.ones((512, 1024), dtype=np.float32)
        assert call("softmax", x, x, *x.shape) == "ok"
        assert call("matvec_f32", x, x[0], np.zeros(512, dtype=np.float32), *x.shape) == "ok"

        def free():
            library.lib.hotfire_context_free(execution.context)
            return "freed"

        assert in_child(free) == ("freed", 0)


def test_too_many_threads_are_refused(open_context):
    """A number that is no number of threads is a mistake, not a wish."""
    assert open_context(n_threads=1024)[0] == "ok"
    assert open_context(n_threads=1025)[0] == "invalid argument"
