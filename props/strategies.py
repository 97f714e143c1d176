"""Which cases of an operation are valid, and how they are drawn.

Sizes come from the edges of each axis with their neighbours, and from the small integers between;
how likely each is says nothing about what is valid. A case is a dozen numbers, so it is drawn by
a plain seeded generator and made smaller by `shrink`: a framework's engine took three quarters of
the time of a case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from hotfire.props import mistakes
from hotfire.props.case import SIDES, Case
from hotfire.props.fills import RANDOM_FILLS
from hotfire.ref.operation import Axis, Operation, measure

MAX_VALUES = 1 << 16
"""The most values that the largest operand of a drawn case holds."""

MAX_LONG_VALUES = 1 << 19
"""The same where one axis is long."""

MAX_WORK = 1 << 22
"""The most that the sizes of a drawn case multiply to: the reference's loops are that long."""

MAX_LANDMARK_WORK = 1 << 26
"""The same for the few cases at landmarks."""

FEW = 32
"""Values of a row, heads and the like, where there are as many rows as there is room for."""

MAX_SEED = (1 << 32) - 1

Cases = Callable[[Random], Case]
"""Draws one case."""


def cases(
    operation: Operation,
    *,
    fills: tuple[str, ...] = RANDOM_FILLS,
    smallest: int = 0,
    in_place: bool = False,
) -> Cases:
    """Valid cases of an operation.

    Args:
        operation: what to draw for.
        fills: names of the fills to draw from.
        smallest: the least size of an axis, in its multiples.
        in_place: whether cases whose outputs lie on their inputs are drawn too.
    """
    overlaps = in_place and any(output.in_place for output in operation.outputs)
    order = _inner_first(operation)

    def draw(rng: Random) -> Case:
        sizes: dict[str, int] = {}
        for axis in order:
            room = _room(operation, axis, sizes, MAX_VALUES)
            least = smallest if operation.along(axis.name) else 0  # others leave nothing empty
            sizes[axis.name] = _size(rng, axis, least, room)
        return Case(
            sizes={axis.name: sizes[axis.name] for axis in operation.axes},
            scalars={each.name: rng.choice(each.samples) for each in operation.scalars},
            fill=rng.choice(fills),
            seed=rng.randint(0, MAX_SEED),
            side=rng.choice(SIDES),
            in_place=overlaps and rng.random() < 0.5,
        )

    return draw


def long_cases(operation: Operation, fills: tuple[str, ...]) -> Cases:
    """Cases with one axis at one of its long sizes and the others small."""
    able = [axis for axis in operation.axes if axis.long]

    def draw(rng: Random) -> Case:
        case = cases(operation, fills=fills, smallest=1)(rng)
        axis = rng.choice(able)
        sizes = {axis.name: rng.choice(axis.long)}
        for other in _inner_first(operation):
            if other.name not in sizes:
                room = min(_room(operation, other, sizes, MAX_LONG_VALUES), 4 * other.multiple_of)
                room = max(room, other.least)
                needed = _needed(operation, other, sizes)
                least = max(1 if operation.along(other.name) else 0, needed // other.multiple_of)
                sizes[other.name] = _size(rng, other, least, max(room, 2 * needed))
        return replace(case, sizes={each.name: sizes[each.name] for each in operation.axes})

    return draw


def landmark(
    operation: Operation, sizes: Mapping[str, int], fill: str = "normal", seed: int = 0
) -> Case:
    """The case with these sizes, each other axis at the middle of its edges if there is room; an
    axis that only cuts the work at another edge for each seed.
    """
    known = dict(sizes)
    for axis in operation.axes:
        if axis.name not in known:
            step = axis.multiple_of
            room = _room(operation, axis, known, MAX_LONG_VALUES, MAX_LANDMARK_WORK)
            room = 0 if axis.gap else room
            middle = len(axis.edges) // 2 + (seed if axis.cut else 0)
            size = min(axis.edges[middle % len(axis.edges)], room) // step * step
            least = max(axis.least, _needed(operation, axis, known))
            known[axis.name] = max(size, least, step if operation.along(axis.name) else 0)
    return Case(
        sizes={axis.name: known[axis.name] for axis in operation.axes},
        scalars={each.name: each.samples[0] for each in operation.scalars},
        fill=fill,
        seed=seed,
    )


def _needed(operation: Operation, axis: Axis, sizes: Mapping[str, int]) -> int:
    """What an axis must be at least, as others that are known may not exceed it."""
    return max(
        (sizes.get(each.name, 0) for each in operation.axes if each.most == axis.name), default=0
    )


def broad(operation: Operation, seed: int = 0) -> Case:
    """As many rows as there is room for, each of a few values: much for threads to share."""
    rows = next((axis.name for axis in operation.axes if axis.rows), None)
    if rows is None:
        return landmark(operation, {}, seed=seed)
    sizes: dict[str, int] = {}
    for axis in operation.axes:
        if axis.name != rows and not axis.most and not axis.gap:
            sizes[axis.name] = max(axis.least, -(-FEW // axis.multiple_of) * axis.multiple_of)
    room = _room(operation, operation.axis(rows), sizes, MAX_LONG_VALUES, MAX_LANDMARK_WORK)
    return landmark(operation, {**sizes, rows: room}, seed=seed)


def fits(operation: Operation, sizes: Mapping[str, int]) -> bool:
    """Whether a case with these sizes has room for every operand and for the reference's work."""
    least = {each.name: max(1, each.least, each.multiple_of) for each in operation.axes}
    least |= sizes
    values = [math.prod(each.shape(least)) for each in operation.operands]
    return max(values) <= MAX_LONG_VALUES and math.prod(sizes.values()) <= MAX_LANDMARK_WORK


def mistaken_cases(operation: Operation) -> Cases:
    """Cases with one thing wrong that a checking library must refuse."""
    valid = cases(operation, fills=("normal",), smallest=2)
    least = cases(operation, fills=("normal",), smallest=1)
    names = mistakes.of(operation)

    def draw(rng: Random) -> Case:
        name = rng.choice(names)
        # One element is enough for a pointer to be wrong; an overlap needs two.
        alone = name.startswith(("null", "misaligned")) and rng.random() < 0.5
        case = (least if alone else valid)(rng)
        if alone and not all(math.prod(each.shape(case.sizes)) for each in operation.operands):
            case = valid(rng)  # an operand without elements may lie anywhere
        return replace(case, in_place=False, side="end", mistake=name)

    return draw


def _inner_first(operation: Operation) -> list[Axis]:
    """Axes in the order of drawing: innermost first, those limited by others last."""
    inner_first = operation.axes[::-1]
    return [each for each in inner_first if not each.most] + [
        each for each in inner_first if each.most
    ]


def _room(
    operation: Operation,
    axis: Axis,
    sizes: Mapping[str, int],
    most_values: int,
    most_work: int = MAX_WORK,
) -> int:
    """The largest size that leaves each operand within `most_values`, the product of all sizes
    within `most_work`, and the axis within its own limit.
    """
    rest = {each.name: max(1, each.least, each.multiple_of) for each in operation.axes}
    rest |= sizes
    rest[axis.name] = 1
    shapes = [operation.extent(each, rest) for each in operation.along(axis.name)]
    room = most_values // max(1, *shapes, 1)
    if shapes:
        room = min(room, most_work // max(1, math.prod(filter(None, sizes.values()))))
    room = max(room, 1)  # an empty axis would hide the others
    return min(room, measure(axis.most, rest)) if axis.most else room


def _size(rng: Random, axis: Axis, smallest: int, room: int) -> int:
    """One valid size: an edge, its neighbour, a small one, or any up to the last edge."""
    step = axis.multiple_of
    least = max(smallest, -(-axis.least // step))
    if axis.most:
        least = min(least, room // step)
    most = max(least, 0 if axis.most else 1, room // step)
    near = [
        size
        for edge in axis.edges
        for size in (edge // step - 1, edge // step, edge // step + 1)
        if least <= size <= most
    ]
    if near and rng.random() < 0.5:
        return rng.choice(near) * step
    between = min(most, max(axis.edges) // step)
    if between > least and rng.random() < 0.2:
        return round(math.exp(rng.uniform(math.log(max(1, least)), math.log(between)))) * step
    return rng.randint(least, min(most, max(least, 4, 40 // step))) * step
