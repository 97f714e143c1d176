"""Parts of a case: which rows of which operand belong together, and calls on some of them.

Members are rows of one axis that do not see each other, or whole sequences with their tokens,
their state and their rows of a pool.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.props.case import Case
from hotfire.ref.formats import Bytes, Integers
from hotfire.ref.operation import Operand, Operation, Sequences

NOBODY = -1


@dataclass(frozen=True)
class Division:
    """A case's rows by member.

    Args:
        name: of the axis whose entries are the members.
        n_members: how many there are.
        owners: axis -> the member that each of its rows belongs to, or `NOBODY`.
        sequences: how sequences lie, if the members are sequences.
    """

    name: str
    n_members: int
    owners: Mapping[str, Integers]
    sequences: Sequences | None = None


def divisions(operation: Operation) -> list[str]:
    """The axes by which a case of this operation can be divided."""
    names = [axis.name for axis in operation.axes if axis.rows]
    return names + ([operation.sequences.seqs] if operation.sequences else [])


def divide(operation: Operation, case: Case, stored: Mapping[str, Bytes], name: str) -> Division:
    """Divides a case by one of `divisions`."""
    size = case.sizes[name]
    told = operation.sequences
    if told is None or name != told.seqs:
        return Division(name, size, {name: np.arange(size)})
    owners = {name: np.arange(size)}
    lengths = np.diff(whole_numbers(stored[told.starts]))
    owners[told.tokens] = np.repeat(np.arange(size), lengths)
    for axis, (begin, length) in told.ranges.items():
        owners[axis] = pool_owners(stored[begin], stored[length], case.sizes[axis])
    return Division(name, size, owners, told)


def pool_owners(begin: Bytes, length: Bytes, n_rows: int) -> Integers:
    """[n_rows] the sequence that each row of a pool belongs to, or `NOBODY`."""
    owners = np.full(n_rows, NOBODY)
    for seq, (first, count) in enumerate(
        zip(whole_numbers(begin), whole_numbers(length), strict=True)
    ):
        owners[first : first + count] = seq
    return owners


def poisoned(
    operation: Operation,
    case: Case,
    stored: Mapping[str, Bytes],
    division: Division,
    kept: Collection[int],
) -> dict[str, Bytes]:
    """The operands with every row poisoned that belongs to no kept member.

    Whole numbers stay: they say where things lie.
    """
    out = dict(stored)
    for operand in operation.drawn:
        if operand.format.is_integer:
            continue
        for axis, owners in division.owners.items():
            if axis in operand.axes:
                foreign = np.flatnonzero(~np.isin(owners, list(kept)))
                out[operand.name] = _spoiled(operand, axis, case, out[operand.name], foreign)
    return out


def select(
    operation: Operation,
    case: Case,
    stored: Mapping[str, Bytes],
    division: Division,
    kept: Collection[int],
) -> tuple[Case, dict[str, Bytes]]:
    """The call on some members alone."""
    members = sorted(kept)
    indices = {
        axis: np.flatnonzero(np.isin(owners, members)) for axis, owners in division.owners.items()
    }
    sizes = {**case.sizes, **{axis: len(rows) for axis, rows in indices.items()}}
    out = {each.name: stored[each.name] for each in operation.drawn}
    for operand in operation.drawn:
        for axis, rows in indices.items():
            if axis in operand.axes:
                out[operand.name] = take(operand, axis, case, out[operand.name], rows)
    if division.sequences is not None:
        _repack(division.sequences, stored, indices, members, out)
    return replace(case, sizes=sizes), out


def _repack(
    told: Sequences,
    stored: Mapping[str, Bytes],
    indices: Mapping[str, Integers],
    members: list[int],
    out: dict[str, Bytes],
) -> None:
    """Starts and pool ranges of the kept sequences, in `out`."""
    lengths = np.diff(whole_numbers(stored[told.starts]))[members]
    out[told.starts] = whole_bytes(np.concatenate([[0], np.cumsum(lengths)]))
    for axis, (begin, _) in told.ranges.items():
        moved = np.searchsorted(indices[axis], whole_numbers(stored[begin])[members])
        out[begin] = whole_bytes(moved)


def rows_of(
    operation: Operation,
    case: Case,
    got: Mapping[str, Bytes],
    division: Division,
    members: Collection[int],
) -> dict[str, Bytes]:
    """The bytes of each output that belong to some members; outputs without rows are left out."""
    out: dict[str, Bytes] = {}
    for operand in operation.outputs:
        for axis, owners in division.owners.items():
            if axis in operand.axes:
                rows = np.flatnonzero(np.isin(owners, list(members)))
                out[operand.name] = take(operand, axis, case, got[operand.name], rows)
    return out


def take(operand: Operand, axis: str, case: Case, stored: Bytes, rows: Integers) -> Bytes:
    """The operand's bytes at some rows of an axis."""
    blocks = _blocks(operand, case, stored)
    return np.take(blocks, rows, axis=operand.axes.index(axis)).reshape(-1)


def put(
    operand: Operand, axis: str, case: Case, stored: Bytes, rows: Integers, values: Bytes
) -> None:
    """Writes an operand's bytes at some rows of an axis."""
    blocks = _blocks(operand, case, stored)
    where = (slice(None),) * operand.axes.index(axis) + (rows,)
    blocks[where] = values.reshape(blocks[where].shape)


def _spoiled(operand: Operand, axis: str, case: Case, stored: Bytes, rows: Integers) -> Bytes:
    out = stored.copy()
    blocks = _blocks(operand, case, out)
    where = (slice(None),) * operand.axes.index(axis) + (rows,)
    blocks[where] = operand.format.poison_block
    return out


def _blocks(operand: Operand, case: Case, stored: Bytes) -> Bytes:
    """[..., n_blocks, block_size], a view."""
    shape = operand.shape(case.sizes)
    fmt = operand.format
    return stored.reshape(*shape[:-1], shape[-1] // fmt.block_len, fmt.block_size)


def whole_numbers(stored: Bytes) -> Integers:
    """What an i32 operand's bytes say."""
    return stored.view("<i4").astype(np.int64)


def whole_bytes(values: NDArray[Any]) -> Bytes:
    """The bytes of an i32 operand."""
    return np.ascontiguousarray(values).astype("<i4").view(np.uint8).reshape(-1)
