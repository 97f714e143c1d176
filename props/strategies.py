"""Which cases of an operation are valid, as Hypothesis strategies.

Sizes come from the edges of each axis with their neighbours, and from the small integers between;
how likely each is says nothing about what is valid.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from hotfire.props import mistakes
from hotfire.props.case import SIDES, Case
from hotfire.props.fills import RANDOM_FILLS
from hotfire.ref.operation import Axis, Operation, measure

MAX_VALUES = 1 << 16
"""The most values that the largest operand of a drawn case holds."""

MAX_WORK = 1 << 22
"""The most that the sizes of a drawn case multiply to: the reference's loops are that long."""

MAX_SEED = (1 << 32) - 1


@st.composite
def cases(
    draw: st.DrawFn,
    operation: Operation,
    *,
    fills: tuple[str, ...] = RANDOM_FILLS,
    smallest: int = 0,
    in_place: bool = False,
) -> Case:
    """Valid cases of an operation.

    Args:
        operation: what to draw for.
        fills: names of the fills to draw from.
        smallest: the least size of an axis, in its multiples.
        in_place: whether cases whose outputs lie on their inputs are drawn too.
    """
    sizes = draw(all_sizes(operation, smallest))
    overlaps = in_place and any(output.in_place for output in operation.outputs)
    return Case(
        sizes=sizes,
        scalars={each.name: draw(st.sampled_from(each.samples)) for each in operation.scalars},
        fill=draw(st.sampled_from(fills)),
        seed=draw(st.integers(0, MAX_SEED)),
        side=draw(st.sampled_from(SIDES)),
        in_place=overlaps and draw(st.booleans()),
    )


@st.composite
def mistaken_cases(draw: st.DrawFn, operation: Operation) -> Case:
    """Cases with one thing wrong that a checking library must refuse."""
    case = draw(cases(operation, fills=("normal",), smallest=2))
    return Case(
        sizes=case.sizes,
        scalars=case.scalars,
        seed=case.seed,
        mistake=draw(st.sampled_from(mistakes.of(operation))),
    )


@st.composite
def all_sizes(draw: st.DrawFn, operation: Operation, smallest: int = 0) -> dict[str, int]:
    """Valid sizes of every axis: innermost first, those limited by others last."""
    sizes: dict[str, int] = {}
    inner_first = operation.axes[::-1]
    for axis in sorted(inner_first, key=lambda axis: bool(axis.most)):
        sizes[axis.name] = draw(_sizes(axis, smallest, _room(operation, axis, sizes)))
    return {axis.name: sizes[axis.name] for axis in operation.axes}


def _room(operation: Operation, axis: Axis, sizes: dict[str, int]) -> int:
    """The largest size that leaves each operand within `MAX_VALUES`, the product of all sizes
    within `MAX_WORK`, and the axis within its own limit.
    """
    rest = {each.name: max(1, each.least, each.multiple_of) for each in operation.axes} | sizes
    shapes = [
        math.prod(each.shape({**rest, axis.name: max(1, axis.least)}))
        for each in operation.operands
        if any(axis.name in part.split(" ") for part in each.axes)
    ]
    room = min((MAX_VALUES // max(1, shape) for shape in shapes), default=MAX_VALUES)
    if shapes:
        room = min(room, MAX_WORK // max(1, math.prod(sizes.values())))
    return min(room, measure(axis.most, sizes)) if axis.most else room


def _sizes(axis: Axis, smallest: int, room: int) -> st.SearchStrategy[int]:
    step = axis.multiple_of
    smallest = max(smallest, -(-axis.least // step))
    if axis.most:
        smallest = min(smallest, room // step)
    edges = {edge // step + offset for edge in axis.edges for offset in (-1, 0, 1)}
    most = max(smallest, 0 if axis.most else 1, room // step)
    near = sorted(size for size in edges if smallest <= size <= most)
    between = st.integers(smallest, min(most, max(smallest, 4, 40 // step)))
    chosen = st.one_of(between, st.sampled_from(near)) if near else between
    return chosen.map(lambda count: count * step)
