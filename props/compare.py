"""Compares what a kernel wrote with the reference, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotfire.props.execute import Broken, Subject
from hotfire.ref.formats import Array, Bytes
from hotfire.ref.operation import Operand, Operation, Values, evaluate

MEAGRE = 0.9
"""A comparison in which this share of elements proves nothing is meagre."""


@dataclass(frozen=True)
class Expected:
    """What a right kernel writes.

    Args:
        want: output name -> float64.
        bound: output name -> the largest |got - want| allowed.
    """

    want: Values
    bound: Values


def expected(
    operation: Operation,
    logical: Values,
    scalars: Mapping[str, float],
    sizes: Mapping[str, int],
    fast: bool = False,
) -> Expected:
    """The reference and the bound on these inputs; an output without elements stays empty."""
    bound = operation.fast_bound if fast and operation.fast_bound else operation.bound
    return Expected(
        evaluate(operation.reference, logical, scalars, sizes),
        evaluate(bound, logical, scalars, sizes),
    )


def check(
    rule: str,
    subject: Subject,
    got: Mapping[str, Bytes],
    right: Expected,
    rows: Mapping[str, int | None] | None = None,
    exact: bool = False,
    before: Mapping[str, Bytes] | None = None,
) -> bool:
    """Compares every output, or one row of each.

    Args:
        rule: the property that is at stake.
        subject: what computed it.
        got: output name -> bytes as written.
        right: what should be there.
        rows: output name -> the one leading index to compare; None compares all.
        before: updated output name -> bytes before the call: blocks that the reference leaves
            alone must stay as they were.
        exact: ask for equality with the reference rounded to f32, instead of the bound.

    Returns:
        Whether the comparison proves something: false where nearly every element is zero or has a
        bound as large as itself.

    Raises:
        Broken: with the worst element, if one is out of bounds.
    """
    telling = False
    for operand in subject.operation.outputs:
        want = right.want[operand.name]
        bound = right.bound[operand.name]
        if exact and not operand.format.is_lossy and not operand.format.is_integer:
            want, bound = want.astype(np.float32).astype(np.float64), np.zeros_like(want)
        row = (rows or {}).get(operand.name)
        stored = got[operand.name]
        if operand.format.is_lossy and subject.kernel.reference_encoding:
            telling |= _same_bytes(
                rule, operand, stored, want, row, (before or {}).get(operand.name)
            )
        else:
            values = operand.format.decode(stored, want.shape)
            telling |= _within(rule, operand, values, want, bound, row)
    return telling


def same(rule: str, operand: Operand, got: Bytes, want: Bytes, what: str) -> None:
    """Asks for equal bytes, where two runs must agree to the bit."""
    wrong = np.flatnonzero(got != want)
    if wrong.size:
        raise Broken(rule, f"{operand.name}: {wrong.size} bytes of {got.size} differ from {what}")


def _within(
    rule: str, operand: Operand, got: Array, want: Array, bound: Array, row: int | None
) -> bool:
    bound = np.broadcast_to(bound, want.shape)
    if row is not None:
        got, want, bound = got[row : row + 1], want[row : row + 1], bound[row : row + 1]
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
        wrong = ~(error <= bound)
    if wrong.any():
        ratio = np.where(np.isnan(error), np.inf, error / np.maximum(bound, 2.0**-149))
        at = np.unravel_index(int(np.where(wrong, ratio, -1).argmax()), want.shape)
        shown = (int(at[0]) + (row or 0), *map(int, at[1:])) if row is not None else at
        place = ", ".join(str(int(index)) for index in shown)
        raise Broken(
            rule,
            f"{operand.name}[{place}]: want {want[at]:.9g}, got {got[at]:.9g}, off by "
            f"{error[at]:.3g} with a bound of {bound[at]:.3g}; {int(wrong.sum())} of "
            f"{want.size} elements are wrong",
        )
    meagre = (want == 0) & (want.dtype.kind == "f") | (bound > 0) & (bound >= np.abs(want))
    return bool(want.size) and float(meagre.mean()) < MEAGRE


def _same_bytes(
    rule: str, operand: Operand, got: Bytes, want: Array, row: int | None, before: Bytes | None
) -> bool:
    fmt = operand.format
    stored = fmt.encode(want).reshape(-1, fmt.block_size)
    if before is not None:
        old = fmt.decode(before, want.shape).reshape(-1, fmt.block_len)
        kept = (old == want.reshape(-1, fmt.block_len)).all(axis=1)
        stored[kept] = before.reshape(-1, fmt.block_size)[kept]
    blocks = got.reshape(-1, fmt.block_size)
    if row is not None:
        n = want.shape[-1] // fmt.block_len
        stored, blocks = stored[row * n : (row + 1) * n], blocks[row * n : (row + 1) * n]
    wrong = np.flatnonzero((stored != blocks).any(axis=1))
    if wrong.size:
        first = int(wrong[0])
        raise Broken(
            rule,
            f"{operand.name}: block {first} is {blocks[first].tobytes().hex(' ', 2)}, expected "
            f"{stored[first].tobytes().hex(' ', 2)}; {wrong.size} of {len(stored)} blocks differ",
        )
    return bool(want.size) and float((want == 0).mean()) < MEAGRE
