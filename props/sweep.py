"""Several kernels searched side by side: a process each, with a worker of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from typing import Any

from hotfire.props.runner import KernelInfo, Runner
from hotfire.props.search import check_kernel
from hotfire.verdict import Verdict

LEAST = 8
"""Kernels that a process of its own is worth: it takes a second to start."""

ONE_DEVICE = ("cuda", "hip")
"""Providers whose kernels take turns, as they share a device."""


def n_jobs(provider: str) -> int:
    """How many kernels of a provider are searched at once unless it is said: one a processor."""
    return 1 if provider.partition(":")[0] in ONE_DEVICE else len(os.sched_getaffinity(0))


def check_kernels(
    provider: str, runner: Runner, kernels: Sequence[KernelInfo], jobs: int, **options: Any
) -> Iterator[Verdict]:
    """The verdict of each kernel, in order; each is what `check_kernel` gives alone.

    Args:
        provider: what the runner was asked for.
        runner: runs them if one process is enough.
        kernels: of the runner.
        jobs: how many processes at most.
        options: of `check_kernel`.

    Raises:
        InputError: if an adapter fails.
    """
    jobs = min(jobs, len(kernels) // LEAST)
    if jobs < 2:
        for kernel in kernels:
            yield check_kernel(runner, kernel, **options)
        return
    # Not forked: a copy of a process with threads may hang. Leaving early ends the processes.
    with get_context("spawn").Pool(jobs, _begin, (provider, runner.seconds, options)) as pool:
        yield from pool.imap(_check, kernels)


_RUNNER: Runner
_OPTIONS: dict[str, Any]


def _begin(provider: str, seconds: float, options: dict[str, Any]) -> None:
    global _RUNNER, _OPTIONS
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _RUNNER, _OPTIONS = Runner(provider, seconds), options


def _check(kernel: KernelInfo) -> Verdict:
    return check_kernel(_RUNNER, kernel, **_OPTIONS)
