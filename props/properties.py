"""The properties of kernels, each a statement that must hold for every valid case.

A property names the cases that it speaks of and checks one; it raises `Broken` where it does not
hold, and returns whether the case proved anything. Which of them speak of an operation follows
from its spec, never from its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from hotfire.errors import InputError
from hotfire.props.basics import (
    agrees_with_reference,
    cuts_are_invisible,
    earlier_calls_leave_no_trace,
    exact_on_designed_inputs,
    holds_at_length,
    leftovers_are_never_read,
    neutral_tail_is_invisible,
    refuses_mistakes,
    repeated_runs_are_right,
    strides_are_invisible,
)
from hotfire.props.case import Case
from hotfire.props.chunks import (
    chunks_are_invisible,
    fresh_states_are_never_read,
    keeps_precision,
    rollback_leaves_nothing,
)
from hotfire.props.execute import Subject
from hotfire.props.fills import RANDOM_FILLS
from hotfire.props.neighbours import neighbours_are_invisible, padding_is_invisible
from hotfire.props.noise import noise_is_the_quantisers
from hotfire.props.parts import divisions
from hotfire.props.strategies import (
    MAX_SEED,
    Cases,
    broad,
    cases,
    fits,
    landmark,
    long_cases,
    mistaken_cases,
)

RAGGED = tuple(2 * chunk + rest for chunk in (16, 32, 64) for rest in (-1, 0, 1, 2))
"""Lengths of a sequence whose last chunk is full, all but full or nearly empty."""

N_POOLS = 8
"""Draws of a pool at each of its long sizes."""

SLOW = "slow"
"""The own fill of an operation with gates: every half-life at its longest."""


@dataclass(frozen=True)
class Property:
    """One statement.

    Args:
        holds: checks one case; returns whether it proved something. Its name is the rule of its
            findings.
        cases: which cases it speaks of.
        applies: whether it speaks of this kernel at all.
        smallest: the least size of an axis, in its multiples, where it says anything.
        share: of the profile's examples, as some cost many calls.
        first: cases to begin with, where engines were seen to fail.
    """

    holds: Callable[[Subject, Case], bool]
    cases: Callable[[Subject], Cases]
    applies: Callable[[Subject], bool] = lambda _: True
    smallest: int = 0
    share: float = 1.0
    first: Callable[[Subject], list[Case]] = lambda _: []

    @property
    def name(self) -> str:
        """Of the statement."""
        return self.holds.__name__


def _plain(subject: Subject) -> Cases:
    return cases(subject.operation, fills=(*RANDOM_FILLS, *subject.operation.fills), smallest=1)


def _agreement(subject: Subject) -> Cases:
    wild = ("wild",) * subject.kernel.any_code
    encodes = any(each.format.is_lossy for each in subject.operation.outputs)
    minute = ("minute",) * (encodes and subject.kernel.minute_blocks)
    fills = (*RANDOM_FILLS, *wild, *minute, *subject.operation.fills)
    return cases(subject.operation, fills=fills, in_place=subject.kernel.in_place)


def _designed(subject: Subject) -> Cases:
    return cases(subject.operation, fills=("exact",), smallest=1)


def _long(subject: Subject) -> Cases:
    return long_cases(subject.operation, ("exact", "normal", *subject.operation.fills))


def _each_length(subject: Subject) -> list[Case]:
    """Designed inputs where one axis is long, where two are, and in more draws of pools, in which
    sequences have other lengths.
    """
    operation = subject.operation
    told = operation.sequences
    pools = told.ranges if told else {}
    able = [axis for axis in operation.axes if axis.long]
    wanted = [
        ({axis.name: size}, fill, seed)
        for axis in able
        for size in axis.long
        for fill, n_seeds in (("exact", N_POOLS if axis.name in pools else 1), ("normal", 1))
        for seed in range(n_seeds)
    ]
    wanted += [
        ({a.name: a.long[0], b.name: b.long[0]}, "exact", 0) for a, b in combinations(able, 2)
    ]
    if told is not None and told.has_state:
        wanted += [
            ({told.tokens: n_tokens, told.seqs: 1}, fill, 0)
            for n_tokens in RAGGED
            for fill in ("exact", "normal")
        ]
    return [
        landmark(operation, sizes, fill, seed)
        for sizes, fill, seed in wanted
        if fits(operation, sizes)
    ]


def _long_sequence(fill: str, n_cases: int) -> Callable[[Subject], list[Case]]:
    """One long sequence, so that it is cut at every landmark."""

    def cases(subject: Subject) -> list[Case]:
        operation = subject.operation
        told = operation.sequences
        sizes = operation.axis(told.tokens).long if told else ()
        if told is None or not sizes:
            return []
        own = fill if fill in operation.fills else "normal"
        fixed = {told.tokens: max(sizes), told.seqs: 1}
        return [landmark(operation, fixed, own, seed) for seed in range(n_cases)]

    return cases


def _one_sequence(subject: Subject) -> list[Case]:
    """One sequence of a few tokens: a step of one token is then a call of one token."""
    told = subject.operation.sequences
    assert told is not None
    sizes = {told.tokens: 6, told.seqs: 1}
    return [landmark(subject.operation, sizes, "normal", seed) for seed in range(6)]


PROPERTIES = (
    Property(
        refuses_mistakes,
        lambda subject: mistaken_cases(subject.operation),
        lambda subject: subject.kernel.checks_arguments,
        smallest=2,
    ),
    Property(exact_on_designed_inputs, _designed, smallest=1),
    Property(agrees_with_reference, _agreement),
    Property(
        neighbours_are_invisible,
        _plain,
        lambda subject: bool(divisions(subject.operation)),
        smallest=1,
    ),
    Property(
        padding_is_invisible,
        _plain,
        lambda subject: subject.operation.sequences is not None,
        smallest=1,
        share=0.5,
    ),
    Property(leftovers_are_never_read, _plain, smallest=1, share=0.2),
    Property(earlier_calls_leave_no_trace, _plain, smallest=1, share=0.2),
    Property(
        neutral_tail_is_invisible,
        _plain,
        lambda subject: any(axis.neutral for axis in subject.operation.axes),
        smallest=1,
    ),
    Property(
        chunks_are_invisible,
        _plain,
        lambda subject: subject.operation.sequences is not None,
        smallest=1,
        share=0.5,
        first=_long_sequence(SLOW, 4),
    ),
    Property(
        rollback_leaves_nothing,
        _plain,
        lambda subject: subject.operation.sequences is not None,
        smallest=1,
        share=0.2,
        first=_one_sequence,
    ),
    Property(
        fresh_states_are_never_read,
        _plain,
        lambda subject: bool(subject.operation.sequences and subject.operation.sequences.has_state),
        smallest=1,
        share=0.5,
    ),
    Property(
        strides_are_invisible,
        lambda subject: cases(subject.operation, in_place=subject.kernel.in_place, smallest=1),
        lambda subject: subject.kernel.strided and bool(subject.operation.gaps),
        smallest=1,
        share=0.5,
    ),
    Property(
        cuts_are_invisible,
        _plain,
        lambda subject: any(axis.cut for axis in subject.operation.axes),
        smallest=1,
        share=0.5,
    ),
    Property(
        holds_at_length,
        _long,
        lambda subject: any(axis.long for axis in subject.operation.axes),
        smallest=1,
        share=0.2,
        first=_each_length,
    ),
    Property(
        keeps_precision,
        lambda subject: long_cases(subject.operation, (SLOW,)),
        lambda subject: (
            SLOW in subject.operation.fills
            and subject.operation.sequences is not None
            and any(axis.long for axis in subject.operation.axes)
        ),
        smallest=1,
        share=0.1,
        first=_long_sequence(SLOW, 2),
    ),
    Property(
        repeated_runs_are_right,
        lambda subject: lambda rng: broad(subject.operation, rng.randint(0, MAX_SEED)),
        smallest=1,
        share=0.01,
    ),
    Property(
        noise_is_the_quantisers,
        lambda subject: cases(subject.operation, fills=("normal",), smallest=1),
        lambda subject: subject.operation.noise is not None,
        smallest=1,
        share=0.5,
    ),
)
"""Cheapest first: a mutant is charged to the first that finds it."""


def property_named(name: str) -> Property:
    """The property of that name.

    Raises:
        InputError: if there is none.
    """
    for stated in PROPERTIES:
        if stated.name == name:
            return stated
    known = ", ".join(stated.name for stated in PROPERTIES)
    raise InputError(f"property {name!r} is not known; expected one of: {known}")
