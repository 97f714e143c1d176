"""Measures each bound against the worst error seen: how close right kernels come.

    .venv/bin/python ci/bench/bounds.py [--cases 2000] [--provider hotfire] [--table] [NAME ...]

One line a kernel: the bound as a multiple of the worst error over cases of every fill, the case,
and the probability that one case alarms, extrapolated from the tail of the cases' worst ratios.
With `--table` the table of ref/README.md instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from hotfire.props.execute import Subject
from hotfire.props.ratios import Ratios, ratios
from hotfire.props.runner import KernelInfo, Runner
from hotfire.props.search import kernels_of
from hotfire.ref.registry import operation


def measured(provider: str, names: list[str], n_cases: int) -> Iterator[tuple[KernelInfo, Ratios]]:
    """Every kernel that this machine can run."""
    with Runner(provider) as runner:
        for kernel in kernels_of(runner, names):
            if not kernel.unavailable:
                subject = Subject(runner, kernel, operation(kernel.operation))
                yield kernel, ratios(subject, n_cases)


def told(found: Ratios) -> str:
    """The bound as a multiple of the worst error."""
    return f"{1 / found.largest:.1f}" if found.largest else "exact"


def _is_fast(variant: str) -> bool:
    return variant.endswith("-fast")


def print_table(found: list[tuple[KernelInfo, Ratios]]) -> None:
    """One row an operation, one column a variant."""
    variants = sorted(dict.fromkeys(kernel.variant for kernel, _ in found), key=_is_fast)
    cells = {(kernel.operation, kernel.variant): told(each) for kernel, each in found}
    print(f"| operation | {' | '.join(variants)} |")
    print(f"| --- |{' --- |' * len(variants)}")
    for name in sorted({kernel.operation for kernel, _ in found}):
        row = " | ".join(cells.get((name, variant), "") for variant in variants)
        print(f"| {name} | {row} |")


def main() -> None:
    """All kernels that this machine can run, or those of the operations named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--provider", default="hotfire")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    found = measured(options.provider, options.operations, options.cases)
    if options.table:
        print_table(list(found))
        return
    print(f"{'operation':24} {'variant':14} {'bound / worst':>13} {'P(alarm)':>9}  worst case")
    for kernel, each in found:
        rate = f"{each.alarm_rate:9.0e}" if each.largest else f"{'':9}"
        name = f"{kernel.operation:24} {kernel.variant:14}"
        print(f"{name} {told(each):>13} {rate}  {each.case or ''}", flush=True)


if __name__ == "__main__":
    main()
