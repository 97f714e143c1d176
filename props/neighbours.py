"""Relations of rows and sequences that share a call and must not see each other."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from hotfire.props.case import Case, decoded, draw_inputs
from hotfire.props.compare import Mask, check, right_of, same
from hotfire.props.execute import Subject, execute
from hotfire.props.parts import Division, divide, divisions, poisoned, rows_of, select
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import evaluate


def neighbours_are_invisible(subject: Subject, case: Case) -> bool:
    """A member's result stays, whatever the others hold: here NaN and absurd codes.

    Members are rows, or sequences with their state and their part of a pool. What belongs to
    nobody is poisoned too. Where the kernel promises it, the result also equals, to the bit, the
    member's among its true neighbours, without the last of them, and alone.
    """
    rule = "neighbours_are_invisible"
    operation = subject.operation
    inputs = draw_inputs(operation, case)
    names = divisions(operation)
    division = divide(operation, case, inputs.stored, names[case.seed % len(names)])
    if not division.n_members:
        return True
    member = case.seed // 7 % division.n_members
    spoilt = poisoned(operation, case, inputs.stored, division, {member})
    got = execute(subject, case, spoilt, inputs.scalars)
    logical = decoded(operation, spoilt, case.sizes)
    reached = evaluate(operation.reference, logical, inputs.scalars, case.sizes)
    clean: dict[str, Mask] = {name: ~np.isnan(values) for name, values in reached.items()}
    right = right_of(subject, inputs, case)
    proved = check(rule, subject, got, right, only=clean, before=spoilt)
    if subject.kernel.row_invariant:
        _check_company(rule, subject, case, inputs.stored, inputs.scalars, division, member, got)
    return proved


def padding_is_invisible(subject: Subject, case: Case) -> bool:
    """Sequences of padding, poisoned, before, between and after the others leave their results and
    their states as they are without them: to the bit where the kernel promises that neighbours do
    not matter, else within the bound.
    """
    rule = "padding_is_invisible"
    operation = subject.operation
    assert operation.sequences is not None
    inputs = draw_inputs(operation, case)
    division = divide(operation, case, inputs.stored, operation.sequences.seqs)
    rng = Random(case.seed)  # noqa: S311 - a draw, not a secret
    real = [member for member in range(division.n_members) if rng.random() < 0.5]
    if not real:
        return True
    padded = poisoned(operation, case, inputs.stored, division, real)
    got = execute(subject, replace(case, in_place=False), padded, inputs.scalars)
    fewer, some = select(operation, case, inputs.stored, division, real)
    alone = execute(subject, replace(fewer, in_place=False), some, inputs.scalars)
    mine = rows_of(operation, case, got, division, real)
    if subject.kernel.row_invariant:
        for name, want in mine.items():
            same(rule, operation.output(name), want, alone[name], "the result without the padding")
    logical = decoded(operation, some, fewer.sizes)
    right = right_of(subject, replace(inputs, stored=some, logical=logical), fewer)
    return check(rule, subject, {**alone, **mine}, right, before=some)


def _check_company(
    rule: str,
    subject: Subject,
    case: Case,
    stored: dict[str, Bytes],
    scalars: dict[str, float],
    division: Division,
    member: int,
    among_poison: dict[str, Bytes],
) -> None:
    """The member's bits are the same in every company."""
    operation = subject.operation
    mine = rows_of(operation, case, among_poison, division, [member])
    everyone = set(range(division.n_members))
    without_last = everyone - {division.n_members - 1} | {member}
    for kept, among in (
        (everyone, "its true neighbours"),
        (without_last, "its neighbours but the last"),
        ({member}, "nobody"),
    ):
        fewer, some = select(operation, case, stored, division, kept)
        alike = divide(operation, fewer, some, division.name)
        got = execute(subject, replace(fewer, in_place=False), some, scalars)
        theirs = rows_of(operation, fewer, got, alike, [sorted(kept).index(member)])
        for name, want in theirs.items():
            what = f"what {division.name} {member} gives among {among}, when they are poisoned"
            same(rule, operation.output(name), mine[name], want, what)
