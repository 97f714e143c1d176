"""What a logical operation is: one value that every suite reads.

An operation says what is computed, on which axes, in which dtypes and how exactly. How a library
calls it belongs to a provider, how a mutant breaks it to the native source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from typing import Any

import numpy as np

from hotfire.errors import InputError, ShapeError
from hotfire.ref.formats import Format, named

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


def exp_drift(x: Any) -> Any:
    """3 u |x|, relative: what an exponential may lose beyond its 2 ulp where it is formed as
    2^(x log2 e), as most GPU kernels do: the product is rounded and so is the constant. CUDA's
    `__expf` is documented with 2 + 1.16 |x| ulp.
    """
    return 3 * UNIT * np.abs(x)


def walk(depth: float) -> float:
    """sqrt(n) u, what n roundings add up to where they are independent: the rounding errors of a
    sum walk at random (Higham and Mary 2019, SIAM J. Sci. Comput. 41, theorem 2.4). It is to be
    multiplied by the size of the partial sums, and says nothing of inputs that were sorted.
    """
    return float(np.sqrt(depth)) * UNIT


def size_of_sums(total: Any, squares: Any) -> Any:
    """How large partial sums of terms in random order get: the total, and four times the root of
    the sum of squares, which a random walk between the two ends exceeds once in 1e12.

    Args:
        total: the sum of the terms.
        squares: the sum of their squares.
    """
    return np.abs(total) + 4 * np.sqrt(squares)


WIDTHS = (512, 1536, 2048, 2560, 3584, 4096, 5120, 6144, 8192)
"""Widths of layers of published models: libraries have kernels made for one of them."""

MANY = (65, 129, 257, 513)
"""Numbers of rows, tokens, heads or experts one beyond those that a tile or a block has."""


def measure(text: str, sizes: Mapping[str, int]) -> int:
    """A size in terms of axes, such as "n_seqs + 1" or "n_kv_heads * n_groups"."""
    if text in sizes:
        return sizes[text]
    total = 0
    for term in text.replace(" - ", " + -").split(" + "):
        product = 1
        for factor in term.split(" * "):
            sign, name = (-1, factor[1:]) if factor.startswith("-") else (1, factor)
            product *= sign * (int(name) if name.isdecimal() else sizes[name])
        total += product
    return total


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A named size, or a whole number that is only a parameter, such as n_rot or n_splits.

    Args:
        name: as in the C prototype.
        doc: what it counts.
        multiple_of: every valid size is a multiple of this.
        least: the smallest valid size.
        most: the largest valid size: a number, an axis, or sizes as `measure` takes them;
            "" for none. It may name no axis that has a `most` of its own.
        edges: sizes at which some kernel changes its path; drawn with their neighbours.
        long: sizes far beyond the others, such as a long context; designed inputs are run at them
            while every other axis stays small.
        rows: entries along it do not see each other, so neighbours must be invisible.
        gap: the operand, f32 or i32, between whose rows so many elements lie; "" for a size. In C
            it is that operand's stride, from one row to the next: the row's width and the gap.
        cut: it says only how the work is cut, as n_splits does, and must not change the result.
        neutral: input name -> value that, appended along this axis, leaves the earlier
            outputs as they were; empty if there is none.
    """

    name: str
    doc: str
    multiple_of: int = 1
    least: int = 0
    most: str = ""
    edges: tuple[int, ...] = (1, 8, 16, 32, 64, 256)
    long: tuple[int, ...] = ()
    rows: bool = False
    gap: str = ""
    cut: bool = False
    neutral: Mapping[str, float] = field(default_factory=dict)


def gaps(*operands: str) -> tuple[Axis, ...]:
    """The axes of the gaps between rows of these operands."""
    return tuple(
        Axis(
            name=f"{each}_gap",
            doc=f"elements from one row of {each} to the next",
            gap=each,
            edges=(0, 1, 7),
        )
        for each in operands
    )


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor, rows contiguous.

    Args:
        name: as in the C prototype.
        dtype: the name of its format in `ref.formats`.
        axes: its sizes, outermost first: names of axes, or sums and products of them.
        doc: what it holds.
        limit: for an input, the greatest magnitude that the operation promises to handle.
        in_place: for an output, the input that it may exactly overlap, or "".
        updated: for an output, whether it is read first, as a carried state or a cache is: one
            pointer, whose values before the call the reference takes under the same name.
    """

    name: str
    dtype: str
    axes: tuple[str, ...]
    doc: str
    limit: float = 1e4
    in_place: str = ""
    updated: bool = False

    @property
    def format(self) -> Format:
        """Its storage format."""
        return named(self.dtype)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape at these sizes."""
        return tuple(measure(each, sizes) for each in self.axes)


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


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """How tokens of several sequences lie in one call, so that it can be cut into several calls.

    Sequence s has the tokens from starts[s] up to starts[s + 1]. Cutting its tokens into chunks,
    one call each, must give the same outputs and leave the same state. Rows of the token axis, of
    the sequence axis and of each range's axis belong to one sequence, and others cannot see them.

    Args:
        tokens: the axis of all tokens.
        seqs: the axis of the sequences; updated outputs that lead with it are carried state.
        starts: the i32 input [n_seqs + 1], from 0 up to all tokens.
        has_state: the i32 input [n_seqs] that is 0 where a sequence begins: its state is then
            taken for zeros and never read. "" if the state is always read.
        ranges: axis of a pool, as of a KV cache -> the two i32 inputs [n_seqs] that say where a
            sequence's rows begin and how many they are, this call's tokens included. A call that
            ends n tokens earlier has n rows less; rows of no sequence are never read.
    """

    tokens: str
    seqs: str
    starts: str
    has_state: str = ""
    ranges: Mapping[str, tuple[str, str]] = field(default_factory=dict)


Values = dict[str, Any]
"""Logical values by operand name: float64, or int64 for i32 operands."""


Reference = Callable[..., Values]
"""Computes outputs, or their absolute error bounds, from inputs and scalars by name. A parameter
of the name of an axis is given its size, where the formula needs one that no shape tells."""


def evaluate(
    function: Reference,
    values: Mapping[str, Any],
    scalars: Mapping[str, float],
    sizes: Mapping[str, int],
) -> Values:
    """Calls a reference or a bound with what its parameters name."""
    wanted = {name: sizes[name] for name in _parameters(function) if name in sizes}
    with np.errstate(all="ignore"):
        return function(**values, **scalars, **wanted)


@cache
def _parameters(function: Reference) -> tuple[str, ...]:
    return tuple(signature(function).parameters)


Draw = Callable[[np.random.Generator, dict[str, int]], Values]
"""(rng, sizes) -> values of some of the drawn operands."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One logical operation at one choice of dtypes.

    Args:
        name: of the operation; the C function is `hotfire_<name>`.
        doc: one sentence, then the formula, for the C header. Where an integer result may be
            tied, it says which of the tied is right.
        inputs, outputs, scalars, axes: in the order of the C prototype.
        reference: inputs and scalars -> outputs, float64. Where a kernel promises the reference
            encoding of a lossy output, the format encodes them and bytes are compared.
        bound: inputs and scalars -> the largest |got - want| that a right kernel may show, an
            element; 0 where the result must be exact, as for integers.
        exact: (rng, sizes) -> every drawn operand, and scalars if they matter, for which every
            order of summation gives the same floats, so that the result must equal the reference.
        second: the same formula by another hand, as a check of the reference; imports what it
            needs itself.
        structure: (rng, sizes) -> the operands that are no free numbers, such as ids, positions,
            starts and gates; every fill but the exact takes them from here.
        fills: further fills of the operation's own, such as corner values of a gate: name ->
            (rng, sizes) -> some operands; the rest is structure, then normal.
        sequences: how a call can be cut along its tokens, or None.
        fast_bound: the bound in the arithmetic mode `fast`; None if both modes are the same.
        batch_invariant: whether, outside the mode `fast`, its result is the same to the bit however
            the work is cut; False where the formula itself goes by chunks.
        noise: inputs as values and scalars, and the variance of each quantised input's encoding
            as `<input>_var` -> the variance of each output, to first order, and as
            `<output>_independent` how many of its elements are as good as independent, if not all;
            None if no input is quantised.
        workspace: bytes of workspace that a call needs, as `measure` takes them; "" for none.
    """

    name: str
    doc: str
    axes: tuple[Axis, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scalars: tuple[Scalar, ...] = ()
    reference: Reference
    bound: Reference
    exact: Draw
    second: Reference | None = None
    structure: Draw | None = None
    fills: Mapping[str, Draw] = field(default_factory=dict)
    sequences: Sequences | None = None
    fast_bound: Reference | None = None
    batch_invariant: bool = True
    noise: Reference | None = None
    workspace: str = ""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def drawn(self) -> tuple[Operand, ...]:
        """The operands that have values before the call: inputs, and outputs that it updates."""
        return self.inputs + tuple(each for each in self.outputs if each.updated)

    def operand(self, name: str) -> Operand:
        """The operand of that name."""
        return next(each for each in self.operands if each.name == name)

    @cached_property
    def gaps(self) -> dict[str, str]:
        """Operand -> the axis of the gap between its rows."""
        return {axis.gap: axis.name for axis in self.axes if axis.gap}

    def strides(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Operand -> elements from one row to the next, of those that may have gaps."""
        return {
            name: measure(self.operand(name).axes[-1], sizes) + sizes[axis]
            for name, axis in self.gaps.items()
        }

    def extent(self, operand: Operand, sizes: Mapping[str, int]) -> int:
        """How many elements an operand takes in memory, gaps included."""
        shape = operand.shape(sizes)
        gap = sizes[self.gaps[operand.name]] if operand.name in self.gaps else 0
        return math.prod(shape[:-1]) * (shape[-1] + gap)

    def dense(self) -> Operation:
        """The same without gaps between rows: of these axes 0 is the only size."""
        if not self.gaps:
            return self
        axes = (replace(axis, most="0") if axis.gap else axis for axis in self.axes)
        return replace(self, axes=tuple(axes))

    @cached_property
    def _along(self) -> dict[str, tuple[Operand, ...]]:
        return {
            axis.name: tuple(
                each
                for each in self.operands
                if any(axis.name in part.split(" ") for part in each.axes)
            )
            for axis in self.axes
        }

    def along(self, axis: str) -> tuple[Operand, ...]:
        """The operands whose shape an axis takes part in."""
        return self._along[axis]

    def output(self, name: str) -> Operand:
        """The output of that name."""
        return next(each for each in self.outputs if each.name == name)

    def axis(self, name: str) -> Axis:
        """The axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Asks each size to be one that the operation takes.

        Raises:
            InputError: naming the first that is not.
        """
        for axis in self.axes:
            size = sizes[axis.name]
            most = measure(axis.most, sizes) if axis.most else size
            if size % axis.multiple_of or not axis.least <= size <= most:
                raise InputError(f"{self.name}: {axis.name}={size}; expected {self.range_of(axis)}")

    @staticmethod
    def range_of(axis: Axis) -> str:
        """The domain of an axis in words."""
        most = f", <= {axis.most}" if axis.most else ""
        multiple = f", a multiple of {axis.multiple_of}" if axis.multiple_of > 1 else ""
        return f">= {axis.least}{most}{multiple}"
