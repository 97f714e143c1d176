"""Calls that are wrong on purpose, derived from an operation: a checking library refuses each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hotfire.errors import InputError
from hotfire.props.case import Case
from hotfire.props.parts import whole_bytes, whole_numbers
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operation, measure


@dataclass(frozen=True)
class Mistake:
    """How a call differs from the right one.

    Args:
        case: the case with the wrong sizes and scalars.
        null: the operand that is NULL, or "".
        misaligned: the operand that lies one byte off, or "".
        overlapping: the output that lies on the first input, or one element into it where the
            operation allows exactly on it, or "".
        small_workspace: whether the workspace is 64 bytes smaller than it must be.
    """

    case: Case
    null: str = ""
    misaligned: str = ""
    overlapping: str = ""
    small_workspace: bool = False


def of(operation: Operation) -> list[str]:
    """The names of every mistake that this operation allows to make."""
    names = [f"null:{each.name}" for each in operation.operands]
    names += [f"misaligned:{each.name}" for each in operation.operands if each.format.alignment > 1]
    names += [f"overlapping:{each.name}" for each in operation.outputs]
    names += [f"negative:{axis.name}" for axis in operation.axes]
    names += [f"huge:{axis.name}" for axis in operation.axes]
    names += [f"ragged:{axis.name}" for axis in operation.axes if axis.multiple_of > 1]
    names += [f"{kind}:{name}" for kind, name in _of_sequences(operation)]
    names += ["small:workspace"] * bool(operation.workspace)
    names += [f"below:{axis.name}" for axis in operation.axes if axis.least > 0]
    names += [f"above:{axis.name}" for axis in operation.axes if axis.most]
    names += [f"{each.name}:{value}" for each in operation.scalars for value in each.invalid]
    return names


def make(operation: Operation, case: Case) -> Mistake:
    """The mistake that the case names.

    Raises:
        InputError: if the operation knows no such mistake.
    """
    kind, _, name = case.mistake.partition(":")
    if case.mistake not in of(operation):
        raise InputError(
            f"mistake {case.mistake!r} is not known; expected one of: {', '.join(of(operation))}"
        )
    if kind == "null":
        return Mistake(case, null=name)
    if kind == "misaligned":
        return Mistake(case, misaligned=name)
    if kind == "overlapping":
        return Mistake(case, overlapping=name)
    if (kind, name) in _of_sequences(operation):
        return Mistake(case)
    if kind == "small":
        return Mistake(case, small_workspace=True)
    if kind in case.scalars:
        return Mistake(replace(case, scalars={**case.scalars, kind: float(name)}))
    wrong = {"negative": -operation.axis(name).multiple_of if kind == "negative" else 0}
    wrong["huge"] = (2**62 // operation.axis(name).multiple_of) * operation.axis(name).multiple_of
    wrong["ragged"] = case.sizes[name] + 1
    axis = operation.axis(name)
    wrong["below"] = axis.least - axis.multiple_of
    wrong["above"] = measure(axis.most, case.sizes) + axis.multiple_of if axis.most else 0
    return Mistake(replace(case, sizes={**case.sizes, name: wrong[kind]}))


def spoilt(operation: Operation, case: Case, stored: Mapping[str, Bytes]) -> dict[str, Bytes]:
    """The operands that the case's mistake makes wrong themselves: starts and pool ranges."""
    kind, _, name = case.mistake.partition(":")
    if (kind, name) not in _of_sequences(operation):
        return {}
    told = operation.sequences
    assert told is not None
    values = whole_numbers(stored[name])
    lengths = np.diff(whole_numbers(stored[told.starts]))
    if kind == "late":
        values[0] = 1
    elif kind == "decreasing":
        values[-2] = values[-1] + 1
    elif kind == "beyond":
        values[-1] += 1
    elif kind == "short":
        values[0] = lengths[0] - 1
    else:
        axis, (_, length) = next((a, r) for a, r in told.ranges.items() if r[0] == name)
        values[0] = case.sizes[axis] - whole_numbers(stored[length])[0] + 1
    return {name: whole_bytes(values)}


def _of_sequences(operation: Operation) -> list[tuple[str, str]]:
    """What can be wrong with starts and ranges: (kind, operand)."""
    told = operation.sequences
    if told is None:
        return []
    kinds = [(kind, told.starts) for kind in ("late", "decreasing", "beyond")]
    for begin, length in told.ranges.values():
        kinds += [("short", length), ("outside", begin)]
    return kinds
