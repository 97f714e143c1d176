"""How a call becomes a kernel launch: the grid's rows, and the arguments in the C order."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hotfire.props.provider import Call
from hotfire.ref.operation import Operation


def n_rows_of(operation: Operation, call: Call) -> int:
    """How many independent rows a call computes: what a grid is laid over."""
    return call.sizes[next(axis.name for axis in operation.axes if axis.rows)]


def arguments_of(operation: Operation, call: Call, pointers: Mapping[str, int]) -> list[bytes]:
    """Operands, scalars and sizes as a kernel takes them, each argument's bytes. It is told of no
    strides: rows lie next to each other.

    Args:
        operation: whose kernel it is.
        call: scalars and sizes.
        pointers: operand name -> address as the kernel sees it.
    """
    return [
        *(struct.pack("<Q", pointers[each.name]) for each in operation.operands),
        *(struct.pack("<f", call.scalars[each.name]) for each in operation.scalars),
        *(struct.pack("<q", call.sizes[axis.name]) for axis in operation.axes if not axis.gap),
    ]
