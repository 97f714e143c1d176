"""Rows with gaps between them: how an operand lies in memory that is not one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from hotfire.props.arena import PAD_BYTE
from hotfire.props.case import Case
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operand, Operation


@dataclass(frozen=True)
class Rows:
    """How the rows of one operand lie, in bytes.

    Args:
        n_rows: how many there are.
        width: of each.
        stride: from the start of one to the start of the next.
    """

    n_rows: int
    width: int
    stride: int

    @property
    def n_bytes(self) -> int:
        """From the first byte to the last; none behind the last row."""
        if not self.n_rows or not self.width:
            return 0
        return (self.n_rows - 1) * self.stride + self.width

    def spread(self, data: Bytes) -> Bytes:
        """The memory in which these rows lie, its gaps filled as a pad is: NaN in every format."""
        memory = np.full((self.n_rows, self.stride), PAD_BYTE, dtype=np.uint8)
        memory[:, : self.width] = data.reshape(self.n_rows, self.width)
        return memory.reshape(-1)[: self.n_bytes]

    def gather(self, memory: Bytes) -> Bytes:
        """The rows alone; a copy."""
        return self._whole(memory)[:, : self.width].reshape(-1)

    def gaps(self, memory: Bytes) -> Bytes:
        """What lies between the rows."""
        return self._whole(memory)[:, self.width :].reshape(-1)

    def _whole(self, memory: Bytes) -> Bytes:
        whole = np.full(self.n_rows * self.stride, PAD_BYTE, dtype=np.uint8)
        whole[: self.n_bytes] = memory
        return whole.reshape(self.n_rows, self.stride)


def rows_of(operation: Operation, operand: Operand, case: Case) -> Rows | None:
    """How the operand's rows lie in this case; None if they are one block."""
    if operand.name not in operation.gaps:
        return None
    shape = operand.shape(case.sizes)
    stride = strides_of(operation, case)[operand.name]
    if stride == shape[-1]:
        return None
    size = operand.format.block_size
    return Rows(prod(shape[:-1]), shape[-1] * size, stride * size)


def spread(operation: Operation, operand: Operand, case: Case, data: Bytes) -> Bytes:
    """The memory in which these values lie, poison between the rows."""
    rows = rows_of(operation, operand, case)
    return rows.spread(data) if rows else data


def strides_of(operation: Operation, case: Case) -> Mapping[str, int]:
    """Operand -> elements from one row to the next, as a call is told. An output that lies on its
    input has that one's.
    """
    strides = operation.strides(case.sizes)
    for each in operation.outputs:
        if case.in_place and each.name in strides and each.in_place:
            strides[each.name] = strides[each.in_place]
    return strides


def told(operation: Operation, case: Case) -> dict[str, int]:
    """The sizes of a call and, as `<operand>_stride`, its strides."""
    strides = strides_of(operation, case)
    return {**case.sizes, **{f"{name}_stride": stride for name, stride in strides.items()}}
