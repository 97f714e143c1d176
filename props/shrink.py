"""Makes a failing case smaller: the same failure on fewer and simpler numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from hotfire.errors import InputError
from hotfire.props.case import Case
from hotfire.ref.operation import Operation

MAX_ATTEMPTS = 300


def shrink(operation: Operation, case: Case, smallest: int, fails: Callable[[Case], bool]) -> Case:
    """The smallest case that still fails, as far as `MAX_ATTEMPTS` attempts can tell.

    Args:
        operation: what the case is of.
        case: which fails.
        smallest: the least size of an axis, in its multiples.
        fails: whether a case fails.
    """
    attempts = 0
    tried = {str(case)}
    progress = True
    while progress:
        progress = False
        for candidate in simpler(operation, case, smallest):
            if str(candidate) in tried:
                continue
            if attempts == MAX_ATTEMPTS:
                return case
            attempts += 1
            tried.add(str(candidate))
            if fails(candidate):
                case, progress = candidate, True
                break
    return case


def simpler(operation: Operation, case: Case, smallest: int) -> Iterator[Case]:
    """Simpler cases, the boldest first: each size at its least, halved, one step less."""
    for cut in (lambda _: 0, lambda count: count // 2, lambda count: count - 1):
        for axis in operation.axes:
            step = axis.multiple_of
            least = max(smallest, -(-axis.least // step))
            count = max(least, cut(case.sizes[axis.name] // step))
            if count * step < case.sizes[axis.name]:
                sizes = {**case.sizes, axis.name: count * step}
                if _valid(operation, sizes):
                    yield from (replace(case, sizes=sizes, seed=seed) for seed in (case.seed, 1, 2))
    if case.in_place:
        yield replace(case, in_place=False)
    if case.side != "end":
        yield replace(case, side="end")
    if case.fill != "normal" and not case.is_designed:
        yield replace(case, fill="normal")
    for seed in (0, 1, 2):
        if seed < case.seed:
            yield replace(case, seed=seed)


def _valid(operation: Operation, sizes: Mapping[str, int]) -> bool:
    try:
        operation.check_sizes(sizes)
    except InputError:
        return False
    return True
