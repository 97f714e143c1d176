"""Compares what a kernel wrote with the reference, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.props.case import Case, Inputs
from hotfire.props.execute import Broken, Subject
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operand, Values, evaluate

MEAGRE = 0.9
"""A comparison in which this share of elements proves nothing is meagre."""

N_REPEATS = 8
"""Runs that must give the same bytes again before a kernel is said to repeat itself."""

Mask = NDArray[np.bool_]

Results = Callable[[], Mapping[str, Bytes]]
"""Runs a kernel and gives the bytes of its outputs."""


@dataclass(frozen=True)
class Expected:
    """What a right kernel writes.

    Args:
        want: output name -> float64, or int64.
        bound: output name -> the largest |got - want| allowed.
    """

    want: Values
    bound: Values


def right_of(subject: Subject, inputs: Inputs, case: Case) -> Expected:
    """The reference, and the bound of the subject's arithmetic mode, on these inputs."""
    operation = subject.operation
    fast = subject.kernel.fast and operation.fast_bound
    arguments = (inputs.logical, inputs.scalars, case.sizes)
    return Expected(
        evaluate(operation.reference, *arguments),
        evaluate(fast or operation.bound, *arguments),
    )


def check(
    rule: str,
    subject: Subject,
    got: Mapping[str, Bytes],
    right: Expected,
    *,
    only: Mapping[str, Mask] | None = None,
    exact: bool = False,
    before: Mapping[str, Bytes] | None = None,
) -> bool:
    """Compares every output.

    Args:
        rule: the property that is at stake.
        subject: what computed it.
        got: output name -> bytes as written.
        right: what should be there.
        only: output name -> which elements to compare; None compares all.
        exact: ask for equality with the reference rounded to f32, instead of the bound.
        before: updated output name -> bytes before the call: blocks that the reference leaves
            alone must stay as they were.

    Returns:
        Whether the comparison proves something: false where nearly every element is zero or has a
        bound as large as itself.

    Raises:
        Broken: with the worst element, if one is out of bounds.
    """
    telling = False
    for operand in subject.operation.outputs:
        fmt = operand.format
        want, bound = right.want[operand.name], right.bound[operand.name]
        if exact and not fmt.is_lossy and not fmt.is_integer:
            want, bound = want.astype(np.float32).astype(np.float64), np.zeros_like(want)
        stored = got[operand.name]
        mask = only[operand.name] if only is not None else None
        if fmt.is_lossy and subject.kernel.reference_encoding:
            old = before.get(operand.name) if before is not None else None
            telling |= _same_bytes(rule, operand, stored, want, mask, old)
        else:
            telling |= _within(rule, operand, fmt.decode(stored, want.shape), want, bound, mask)
    return telling


def same(rule: str, operand: Operand, got: Bytes, want: Bytes, what: str) -> None:
    """Asks for equal bytes, where two runs must agree to the bit."""
    if not np.array_equal(got, want):
        n_wrong = np.count_nonzero(got != want)
        raise Broken(rule, f"{operand.name}: {n_wrong} bytes of {got.size} differ from {what}")


def same_each_time(
    rule: str, subject: Subject, got: Results, want: Results, what: str
) -> Mapping[str, Bytes]:
    """Asks two ways to run a kernel for equal bytes; where they differ and the kernel promises
    nothing of bits, only if each way gives its own bytes again: sums by atomic additions do not.

    Args:
        rule: the property that is at stake.
        subject: the kernel.
        got, want: run it either way.
        what: `want`, in words.

    Returns:
        What `got` came to.
    """
    outputs = subject.operation.outputs

    def alike(one: Mapping[str, Bytes], other: Mapping[str, Bytes]) -> bool:
        return all(np.array_equal(one[each.name], other[each.name]) for each in outputs)

    theirs, mine = want(), got()
    promised = subject.kernel.row_invariant or subject.kernel.batch_invariant
    repeats = promised or (
        not alike(mine, theirs)
        and all(alike(mine, got()) and alike(theirs, want()) for _ in range(N_REPEATS))
    )
    for each in outputs if repeats else ():
        same(rule, each, mine[each.name], theirs[each.name], what)
    return mine


def _within(
    rule: str,
    operand: Operand,
    got: NDArray[Any],
    want: NDArray[Any],
    bound: NDArray[Any],
    mask: Mask | None,
) -> bool:
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
        wrong = ~(error <= bound)
    if mask is not None:
        wrong &= mask
    if wrong.any():
        bound = np.broadcast_to(bound, want.shape)
        ratio = np.where(np.isnan(error), np.inf, error / np.maximum(bound, 2.0**-149))
        at = np.unravel_index(int(np.where(wrong, ratio, -1).argmax()), want.shape)
        place = ", ".join(str(int(index)) for index in at)
        raise Broken(
            rule,
            f"{operand.name}[{place}]: want {want[at]:.9g}, got {got[at]:.9g}, off by "
            f"{error[at]:.3g} with a bound of {bound[at]:.3g}; {int(wrong.sum())} of "
            f"{want.size if mask is None else int(mask.sum())} elements are wrong",
        )
    if operand.format.is_integer:
        return bool(want.size)
    size = np.abs(want)
    meagre = (size == 0) | ((bound > 0) & (bound >= size))
    return bool(want.size) and float(meagre.mean()) < MEAGRE


def _same_bytes(
    rule: str,
    operand: Operand,
    got: Bytes,
    want: NDArray[Any],
    mask: Mask | None,
    before: Bytes | None,
) -> bool:
    fmt = operand.format
    stored = fmt.encode(want).reshape(-1, fmt.block_size)
    blocks = got.reshape(-1, fmt.block_size)
    if before is not None:
        old = fmt.decode(before, want.shape)
        alike = (old == want) & (np.signbit(old) == np.signbit(want))
        kept = alike.reshape(-1, fmt.block_len).all(axis=1)
        stored[kept] = before.reshape(-1, fmt.block_size)[kept]
    differ = (stored != blocks).any(axis=1)
    if mask is not None:
        differ &= mask.reshape(-1, fmt.block_len).all(axis=1)
    wrong = np.flatnonzero(differ)
    if wrong.size:
        first = int(wrong[0])
        raise Broken(
            rule,
            f"{operand.name}: block {first} is {blocks[first].tobytes().hex(' ', 2)}, expected "
            f"{stored[first].tobytes().hex(' ', 2)}; {wrong.size} of {len(stored)} blocks differ",
        )
    return bool(want.size) and float((want == 0).mean()) < MEAGRE
