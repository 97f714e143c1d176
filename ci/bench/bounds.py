"""Measures each bound against the worst error seen: how close right kernels come.

    .venv/bin/python ci/bench/bounds.py [--cases 2000] [--provider hotfire] [OPERATION ...]

One line a kernel: the bound as a multiple of the worst error over cases of every fill, the case,
and the probability that one case alarms, extrapolated from the tail of the cases' worst ratios.
"""

from __future__ import annotations

import argparse

from hotfire.props.execute import Subject
from hotfire.props.ratios import ratios
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
from hotfire.ref.registry import operation


def main() -> None:
    """All kernels that this machine can run, or those of the operations named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--provider", default="hotfire")
    options = parser.parse_args()
    print(f"{'operation':24} {'variant':14} {'bound / worst':>13} {'P(alarm)':>9}  worst case")
    with Runner(options.provider) as runner:
        for kernel in kernels_of(runner, options.operations):
            if kernel.unavailable:
                continue
            subject = Subject(runner, kernel, operation(kernel.operation))
            found = ratios(subject, options.cases)
            told = f"{1 / found.largest:13.1f}" if found.largest else f"{'exact':>13}"
            rate = f"{found.alarm_rate:9.0e}" if found.largest else f"{'':9}"
            print(f"{kernel.operation:24} {kernel.variant:14} {told} {rate}  {found.case or ''}")


if __name__ == "__main__":
    main()
