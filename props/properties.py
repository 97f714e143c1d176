"""The properties of kernels, each a statement that must hold for every valid case.

A property names the cases that it speaks of and checks one; it raises `Broken` where it does not
hold, and returns whether the case proved anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis.strategies import SearchStrategy

from hotfire.props import mistakes
from hotfire.props.case import Case, Inputs, decoded, draw_inputs
from hotfire.props.compare import Expected, check, expected, same
from hotfire.props.execute import Broken, Subject, execute, execute_mistake
from hotfire.props.fills import RANDOM_FILLS
from hotfire.props.strategies import cases, mistaken_cases
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Axis, Operand
from hotfire.verdict import Severity


@dataclass(frozen=True)
class Property:
    """One statement.

    Args:
        name: of the statement; the rule of its findings.
        applies: whether it speaks of this kernel at all.
        cases: which cases it speaks of.
        holds: checks one case; returns whether it proved something.
    """

    name: str
    applies: Callable[[Subject], bool]
    cases: Callable[[Subject], SearchStrategy[Case]]
    holds: Callable[[Subject, Case], bool]


def agrees_with_reference(subject: Subject, case: Case) -> bool:
    """T1: every element is within the operation's bound of the float64 reference."""
    return _agrees("agrees_with_reference", subject, case, exact=False)


def exact_on_designed_inputs(subject: Subject, case: Case) -> bool:
    """T0: on inputs for which no order of summation rounds, the result equals the reference."""
    return _agrees("exact_on_designed_inputs", subject, case, exact=True)


def neighbours_are_invisible(subject: Subject, case: Case) -> bool:
    """A row's result stays, whatever the other rows hold: here NaN and absurd codes.

    Where the kernel promises it, it also equals, to the bit, the row computed among its true
    neighbours and the row computed alone.
    """
    rule = "neighbours_are_invisible"
    axis = _row_axis(subject)
    row = case.seed % case.sizes[axis.name]
    inputs = draw_inputs(subject.operation, case)
    right = right_of(subject, inputs, case)
    poisoned = {
        each.name: _poisoned(each, axis, row, case, inputs) for each in subject.operation.drawn
    }
    got = execute(subject, case, poisoned, inputs.scalars)
    rows = {each.name: row for each in subject.operation.outputs if _leads(each, axis)}
    proved = check(rule, subject, got, right, rows, before=poisoned)
    if subject.kernel.row_invariant:
        _check_alone(rule, subject, case, axis, row, inputs, got)
    return proved


def neutral_tail_is_invisible(subject: Subject, case: Case) -> bool:
    """Appending neutral columns, such as zeros of a product, leaves the result within its bound."""
    axis = next(axis for axis in subject.operation.axes if axis.neutral)
    n_more = axis.multiple_of * (1 + case.seed % 9)
    inputs = draw_inputs(subject.operation, case)
    longer = replace(case, sizes={**case.sizes, axis.name: case.sizes[axis.name] + n_more})
    stored = {
        each.name: _appended(each, axis, n_more, case, inputs) for each in subject.operation.drawn
    }
    logical = decoded(subject.operation, stored, longer.sizes)
    got = execute(subject, longer, stored, inputs.scalars)
    right = right_of(subject, replace(inputs, logical=logical), longer)
    short = right_of(subject, inputs, case)
    for each in subject.operation.outputs:
        kept = short.want[each.name]
        where = tuple(slice(0, n) for n in kept.shape)
        right.want[each.name][where] = kept
    return check("neutral_tail_is_invisible", subject, got, right, before=stored)


def refuses_mistakes(subject: Subject, case: Case) -> bool:
    """A wrong call answers with an error and writes nothing."""
    mistake = mistakes.make(subject.operation, case)
    inputs = draw_inputs(subject.operation, case)
    outcome = execute_mistake(subject, mistake, case, inputs.stored)
    if outcome.kind != "refused":
        raise Broken(
            "refuses_mistakes",
            f"a call with {case.mistake} was accepted; expected an error status",
            severity=Severity.MEMORY_UNSAFE,
        )
    return True


def _agrees(rule: str, subject: Subject, case: Case, exact: bool) -> bool:
    inputs = draw_inputs(subject.operation, case)
    got = execute(subject, case, inputs.stored, inputs.scalars)
    if not any(data.size for data in got.values()):
        return True
    right = right_of(subject, inputs, case)
    return check(rule, subject, got, right, exact=exact, before=inputs.stored)


def right_of(subject: Subject, inputs: Inputs, case: Case) -> Expected:
    """What a right kernel of the subject's arithmetic mode writes."""
    return expected(
        subject.operation, inputs.logical, inputs.scalars, case.sizes, subject.kernel.fast
    )


def _agreement_cases(subject: Subject) -> SearchStrategy[Case]:
    wild = ("wild",) * subject.kernel.any_code
    fills = (*RANDOM_FILLS, *wild, *subject.operation.fills)
    return cases(subject.operation, fills=fills, in_place=subject.kernel.in_place)


def _row_axis(subject: Subject) -> Axis:
    return next(axis for axis in subject.operation.axes if axis.rows)


def _leads(operand: Operand, axis: Axis) -> bool:
    return bool(operand.axes) and operand.axes[0] == axis.name


def _poisoned(operand: Operand, axis: Axis, row: int, case: Case, inputs: Inputs) -> Bytes:
    """The operand with every row but one poisoned; operands without rows stay as they are."""
    stored = inputs.stored[operand.name]
    if not _leads(operand, axis) or operand.format.is_integer:
        return stored
    rows = stored.reshape(case.sizes[axis.name], -1)
    out = operand.format.poison(operand.shape(case.sizes)).reshape(rows.shape)
    out[row] = rows[row]
    return out.reshape(-1)


def _check_alone(
    rule: str,
    subject: Subject,
    case: Case,
    axis: Axis,
    row: int,
    inputs: Inputs,
    poisoned: dict[str, Bytes],
) -> None:
    n_rows = case.sizes[axis.name]
    alone = replace(case, sizes={**case.sizes, axis.name: 1})
    single = {
        each.name: inputs.stored[each.name].reshape(n_rows, -1)[row]
        if _leads(each, axis)
        else inputs.stored[each.name]
        for each in subject.operation.drawn
    }
    together = execute(subject, case, inputs.stored, inputs.scalars)
    lone = execute(subject, alone, single, inputs.scalars)
    for each in subject.operation.outputs:
        want = lone[each.name]
        for got, among in ((poisoned, "poisoned neighbours"), (together, "its neighbours")):
            mine = got[each.name].reshape(n_rows, -1)[row]
            same(rule, each, mine, want, f"the row alone, when it runs among {among}")


def _appended(operand: Operand, axis: Axis, n_more: int, case: Case, inputs: Inputs) -> Bytes:
    """The operand with `n_more` neutral values appended along the axis."""
    stored = inputs.stored[operand.name]
    if axis.name not in operand.axes:
        return stored
    shape = operand.shape(case.sizes)
    leading = int(np.prod(shape[:-1], dtype=np.int64))
    tail = operand.format.encode(np.full((leading, n_more), axis.neutral[operand.name]))
    rows = stored.reshape(leading, -1)
    return np.concatenate([rows, tail.reshape(leading, -1)], axis=1).reshape(-1)


PROPERTIES = (
    Property(
        "refuses_mistakes",
        lambda subject: subject.kernel.checks_arguments,
        lambda subject: mistaken_cases(subject.operation),
        refuses_mistakes,
    ),
    Property(
        "exact_on_designed_inputs",
        lambda _: True,
        lambda subject: cases(subject.operation, fills=("exact",), smallest=1),
        exact_on_designed_inputs,
    ),
    Property(
        "agrees_with_reference",
        lambda _: True,
        _agreement_cases,
        agrees_with_reference,
    ),
    Property(
        "neighbours_are_invisible",
        lambda subject: any(axis.rows for axis in subject.operation.axes),
        lambda subject: cases(subject.operation, smallest=1),
        neighbours_are_invisible,
    ),
    Property(
        "neutral_tail_is_invisible",
        lambda subject: any(axis.neutral for axis in subject.operation.axes),
        lambda subject: cases(subject.operation, smallest=1),
        neutral_tail_is_invisible,
    ),
)
"""Cheapest first: a mutant is charged to the first that finds it."""
