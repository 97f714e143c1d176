"""Prints how many small cases a second one core checks, and where the time of a case goes.

    .venv/bin/python ci/bench/props_throughput.py [OPERATION ...]

Parent and worker share one core; what counts is the processor time of both, so that other
work on the machine does not. A case is drawn, its operands filled and placed between guard
pages, the kernel called in the worker, the reference and the bound computed, results compared.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from hotfire.props.execute import Subject
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
from hotfire.ref.registry import operation

DEFAULT = ("matvec_f32", "matvec_q8_0", "matvec_q4_0", "rms_norm")
N_CASES = 2000
STEPS = {
    "draw the case": ("strategies.py", "draw"),
    "fill and encode operands": ("case.py", "draw_inputs"),
    "place operands, poison, pads": ("execute.py", "_place"),
    "call: worker, kernel, two switches": ("runner.py", "call"),
    "check pads and inputs": ("execute.py", "_check_untouched"),
    "reference and bound": ("compare.py", "right_of"),
    "compare": ("compare.py", "check"),
}


def main(names: list[str]) -> None:
    """One line an operation, then the steps of the first."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    stated = next(each for each in PROPERTIES if each.name == "agrees_with_reference")
    with Runner("hotfire") as runner:
        for name in names or DEFAULT:
            kernel = [each for each in kernels_of(runner, [name]) if not each.unavailable][-1]
            subject = Subject(runner, kernel, operation(name))
            best = max(_rate(subject, stated) for _ in range(3))
            print(f"{name:20} {kernel.variant:10} {best:6.0f} cases a second on one core")
        profile = cProfile.Profile()
        profile.runcall(_rate, subject, stated)
    _print_steps(profile)


def _rate(subject: Subject, stated: object) -> float:
    rng = random.Random(0)  # noqa: S311 - a draw, not a secret
    draw = stated.cases(subject)
    start = _seconds(subject.runner)
    for _ in range(N_CASES):
        stated.holds(subject, draw(rng))
    return N_CASES / (_seconds(subject.runner) - start)


def _seconds(runner: Runner) -> float:
    """Processor time of this process and of the one that runs kernels."""
    words = Path(f"/proc/{runner.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(words[11]) + int(words[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _print_steps(profile: cProfile.Profile) -> None:
    stats = pstats.Stats(profile)
    total = stats.total_tt
    print("\nwhere the time goes, under a profiler that slows Python code:")
    for step, (file, function) in STEPS.items():
        seconds = sum(
            entry[3]
            for (path, _, name), entry in stats.stats.items()
            if path.endswith(f"props/{file}") and name == function
        )
        print(f"{step:36} {1e6 * seconds / N_CASES:6.0f} us  {seconds / total:5.0%}")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(sys.argv[1:])
