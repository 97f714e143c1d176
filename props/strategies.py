"""Which cases of an operation are valid, as Hypothesis strategies.

Sizes come from the edges of each axis with their neighbours, and from the small integers between;
how likely each is says nothing about what is valid.
"""

from __future__ import annotations

from hypothesis import strategies as st

from hotfire.props import mistakes
from hotfire.props.case import SIDES, Case
from hotfire.props.fills import RANDOM_FILLS
from hotfire.ref.operation import Axis, Operation

MAX_VALUES = 1 << 16
"""The most values that the largest operand of a drawn case holds."""

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
    sizes: dict[str, int] = {}
    room = MAX_VALUES
    for axis in reversed(operation.axes):
        sizes[axis.name] = draw(_sizes(axis, smallest, room))
        room = max(1, room // max(1, sizes[axis.name]))
    overlaps = in_place and any(output.in_place for output in operation.outputs)
    return Case(
        sizes={axis.name: sizes[axis.name] for axis in operation.axes},
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


def _sizes(axis: Axis, smallest: int, room: int) -> st.SearchStrategy[int]:
    step = axis.multiple_of
    edges = {edge // step + offset for edge in axis.edges for offset in (-1, 0, 1)}
    most = max(smallest, 1, room // step)
    near = sorted(size for size in edges if smallest <= size <= most)
    between = st.integers(smallest, min(most, max(40 // step, 4)))
    chosen = st.one_of(between, st.sampled_from(near)) if near else between
    return chosen.map(lambda count: count * step)
