"""What a logical operation is: one value that every suite reads.

An operation says what is computed, on which axes, in which dtypes and how exactly. How a library
calls it belongs to a provider, how a mutant breaks it to the native source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotfire.errors import ShapeError
from hotfire.ref.formats import Array, Format, named

UNIT = 2.0**-24
"""The unit roundoff u of f32: half the distance from 1 to the next float."""

SMALLEST_NORMAL = 2.0**-126
"""The smallest normal f32. Below it a kernel may flush to zero, and a bound must allow it."""


def gamma(depth: float) -> float:
    """n u / (1 - n u), the error of a chain of n roundings (Higham 2002, lemma 3.1).

    Raises:
        ShapeError: if n u reaches 1, where the bound says nothing.
    """
    if depth * UNIT >= 1:
        raise ShapeError(f"a chain of {depth} f32 roundings has no error bound; shorten the axis")
    return depth * UNIT / (1 - depth * UNIT)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A named size.

    Args:
        name: as in the C prototype.
        doc: what it counts.
        multiple_of: every valid size is a multiple of this.
        edges: sizes at which some kernel changes its path; drawn with their neighbours.
        rows: entries along it do not see each other, so neighbours must be invisible.
        neutral: input name -> value that, appended along this axis, leaves the earlier
            outputs as they were; empty if there is none.
    """

    name: str
    doc: str
    multiple_of: int = 1
    edges: tuple[int, ...] = (1, 8, 16, 32, 64, 256)
    rows: bool = False
    neutral: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor, rows contiguous.

    Args:
        name: as in the C prototype.
        dtype: the name of its format in `ref.formats`.
        axes: names of its axes, outermost first.
        doc: what it holds.
        limit: for an input, the greatest magnitude that the operation promises to handle.
        in_place: for an output, the input that it may exactly overlap, or "".
    """

    name: str
    dtype: str
    axes: tuple[str, ...]
    doc: str
    limit: float = 1e4
    in_place: str = ""

    @property
    def format(self) -> Format:
        """Its storage format."""
        return named(self.dtype)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape at these sizes."""
        return tuple(sizes[axis] for axis in self.axes)


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A number passed by value, f32.

    Args:
        name: as in the C prototype.
        doc: what it does, and its domain.
        samples: valid values to draw from.
        invalid: values that must be refused.
    """

    name: str
    doc: str
    samples: tuple[float, ...]
    invalid: tuple[float, ...] = ()


Values = dict[str, Array]
"""Logical values by operand name, float64."""


Reference = Callable[..., Values]
"""Computes outputs, or their absolute error bounds, from inputs and scalars by name."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One logical operation at one choice of dtypes.

    Args:
        name: of the operation; the C function is `hotfire_<name>`.
        doc: one sentence, then the formula, for the C header.
        inputs, outputs, scalars, axes: in the order of the C prototype.
        reference: inputs and scalars -> outputs, float64. Where a kernel promises the reference
            encoding of a lossy output, the format encodes them and bytes are compared.
        bound: inputs and scalars -> the largest |got - want| that a right kernel may show, an
            element; 0 where the result must be exact.
        exact: (rng, sizes) -> inputs, and scalars if they matter, for which every order of
            summation gives the same floats, so that the result must equal the reference.
        second: the same formula by another hand, as a check of the reference; imports what it
            needs itself.
    """

    name: str
    doc: str
    axes: tuple[Axis, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scalars: tuple[Scalar, ...] = ()
    reference: Reference
    bound: Reference
    exact: Callable[[np.random.Generator, dict[str, int]], dict[str, Any]]
    second: Reference | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def output(self, name: str) -> Operand:
        """The output of that name."""
        return next(each for each in self.outputs if each.name == name)

    def axis(self, name: str) -> Axis:
        """The axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)
