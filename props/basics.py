"""Relations of single calls: agreement, exactness, neutral tails, refused mistakes, long axes."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from hotfire.props import mistakes
from hotfire.props.case import SIDES, Case, Inputs, decoded, draw_inputs, draw_others
from hotfire.props.compare import check, right_of, same, same_each_time
from hotfire.props.execute import Broken, Subject, execute, execute_mistake, workspace_left
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Axis, Operand
from hotfire.verdict import Severity

SECONDS_OF_RUNS = 0.25
"""How long one call is run again and again."""

N_RUNS = 100
"""At most so often."""


def agrees_with_reference(subject: Subject, case: Case) -> bool:
    """T1: every element is within the operation's bound of the float64 reference."""
    return _agrees("agrees_with_reference", subject, case, exact=False)


def exact_on_designed_inputs(subject: Subject, case: Case) -> bool:
    """T0: on inputs for which no order of summation rounds, the result equals the reference."""
    return _agrees("exact_on_designed_inputs", subject, case, exact=True)


def holds_at_length(subject: Subject, case: Case) -> bool:
    """Both, where one axis is long: a needle at a split's edge is found, a sum stays a sum."""
    return _agrees("holds_at_length", subject, case, exact=case.is_designed)


def cuts_are_invisible(subject: Subject, case: Case) -> bool:
    """Into how many splits the work is cut does not change the result: to the bit where the
    kernel promises it, else within the bound.
    """
    rule = "cuts_are_invisible"
    axis = next(axis for axis in subject.operation.axes if axis.cut)
    inputs = draw_inputs(subject.operation, case)
    got = execute(subject, case, inputs.stored, inputs.scalars)
    whole = replace(case, sizes={**case.sizes, axis.name: max(1, axis.least)})
    at_once = execute(subject, whole, inputs.stored, inputs.scalars)
    if subject.kernel.batch_invariant:
        for each in subject.operation.outputs:
            same(rule, each, got[each.name], at_once[each.name], f"{axis.name}=1")
    return check(rule, subject, got, right_of(subject, inputs, case), before=inputs.stored)


def strides_are_invisible(subject: Subject, case: Case) -> bool:
    """The same values with gaps between their rows, as in a view of a larger buffer, give the same
    bits as in one block. What lies in the gaps is NaN, and stays as it was.
    """
    rule = "strides_are_invisible"
    inputs = draw_inputs(subject.operation, case)
    got = execute(subject, case, inputs.stored, inputs.scalars)
    gaps = dict.fromkeys(subject.operation.gaps.values(), 0)
    block = replace(case, sizes={**case.sizes, **gaps})
    in_block = execute(subject, block, inputs.stored, inputs.scalars)
    for each in subject.operation.outputs:
        same(rule, each, got[each.name], in_block[each.name], "rows without gaps")
    return check(rule, subject, got, right_of(subject, inputs, case), before=inputs.stored)


def leftovers_are_never_read(subject: Subject, case: Case) -> bool:
    """What another call left in the outputs and in the workspace does not change a bit of the
    result. Poison cannot show this alone: NaN fails every comparison, as old values do not.
    """
    rule = "leftovers_are_never_read"
    operation = subject.operation
    inputs = draw_inputs(operation, case)
    other = draw_others(operation, case)
    left = execute(subject, case, other.stored, other.scalars) | workspace_left(subject, case)
    got = same_each_time(
        rule,
        subject,
        lambda: execute(subject, case, inputs.stored, inputs.scalars, leftovers=left),
        lambda: execute(subject, case, inputs.stored, inputs.scalars),
        "the result in poisoned memory",
    )
    return check(rule, subject, got, right_of(subject, inputs, case), before=inputs.stored)


def repeated_runs_are_right(subject: Subject, case: Case) -> bool:
    """Many runs of one call, as many as fit a quarter of a second, are all right, and where the
    kernel promises bits, the same to the bit: threads that race are wrong only now and then.
    """
    rule = "repeated_runs_are_right"
    inputs = draw_inputs(subject.operation, case)
    right = right_of(subject, inputs, case)
    first = execute(subject, case, inputs.stored, inputs.scalars)
    proved = check(rule, subject, first, right, before=inputs.stored)
    end = time.monotonic() + SECONDS_OF_RUNS
    for _ in range(N_RUNS):
        got = execute(subject, case, inputs.stored, inputs.scalars)
        for each in subject.operation.outputs:
            if np.array_equal(got[each.name], first[each.name]):
                continue
            if subject.kernel.row_invariant:
                same(rule, each, got[each.name], first[each.name], "the first run")
            check(rule, subject, got, right, before=inputs.stored)
        if time.monotonic() > end:
            break
    return proved


def earlier_calls_leave_no_trace(subject: Subject, case: Case) -> bool:
    """Calls of the same sizes are right whatever came before: on other contents with other scalars
    in the same memory, then elsewhere. A kernel that keeps a plan or a captured graph must not keep
    pointers, lengths, ids or scalars of the call that it was made for.
    """
    rule = "earlier_calls_leave_no_trace"
    first = draw_inputs(subject.operation, case)
    other = draw_others(subject.operation, case)
    elsewhere = replace(case, side=SIDES[(SIDES.index(case.side) + 1) % len(SIDES)])
    right = {id(each): right_of(subject, each, case) for each in (first, other)}
    proved = False
    for where, inputs in ((case, first), (case, other), (elsewhere, first), (elsewhere, other)):
        got = execute(subject, where, inputs.stored, inputs.scalars)
        proved |= check(rule, subject, got, right[id(inputs)], before=inputs.stored)
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
    inputs = draw_inputs(subject.operation, case)
    mistake = mistakes.make(subject.operation, case)
    stored = inputs.stored | mistakes.spoilt(subject.operation, case, inputs.stored)
    outcome = execute_mistake(subject, mistake, case, stored)
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
