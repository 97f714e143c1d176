"""Matrix times vector, over f32 and bf16 weights and over quantised weights and activations in
ggml's blocks. The bound is that of a random walk (Higham and Mary 2019, theorem 2.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.designed import blocks, without_zero_products
from hotfire.ref.formats import Array, named
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    WIDTHS,
    Axis,
    Operand,
    Operation,
    Reference,
    Values,
    size_of_sums,
    walk,
)

LANES = 16
"""Partial sums that the widest kernel keeps; each joins the result in one more addition."""

WHOLE_RANGE = 512
"""Up to this many columns, sums of products of whole-range codes fit the exact range."""


def reference(weight: Array, x: Array) -> Values:
    """y = weight @ x, in float64."""
    return {"y": weight @ x}


def chain(n_cols: int, block_len: int) -> int:
    """The longest chain of roundings that a product of n_cols terms goes through.

    With f32 operands it is n_cols, whatever the order. With quantised blocks the integer products
    within a block are exact: one product of scales, one fused or rounded product and one addition
    a block remain, then the partial sums of the lanes.
    """
    return n_cols if block_len == 1 else 2 * (n_cols // block_len) + LANES + 2


def bound_for(block_len: int) -> Reference:
    """sqrt(n) u times the size of the partial sums, n the longest chain of roundings; see `walk`.

    A bound of gamma_n * sum_k |weight_k x_k| holds for any input, and is 600 times the worst
    error at 4096 columns; this one is 5 times it, for terms in random order.
    """

    def bound(weight: Array, x: Array) -> Values:
        n_cols = x.shape[-1]
        sums = size_of_sums(weight @ x, (weight * weight) @ (x * x))
        return {"y": walk(chain(n_cols, block_len)) * sums + n_cols * SMALLEST_NORMAL}

    return bound


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Designed integers of a dtype; long rows hold small ones, so that sums stay exact."""
    peak = {"f32": 15, "bf16": 127, "q8_0": 127, "q4_0": 8}[dtype]
    common = peak if shape[-1] <= WHOLE_RANGE else min(peak, 16)
    if named(dtype).block_len > 1:
        return blocks(rng, shape, peak, common)
    values = rng.integers(1 - common, common, size=shape).astype(np.float64)
    return values * 2.0 ** rng.integers(0, 3, size=shape)


def designed(
    rng: np.random.Generator,
    weight_dtype: str,
    weight_shape: tuple[int, ...],
    x_dtype: str,
    x_shape: tuple[int, ...],
) -> tuple[Array, Array]:
    """Weight and x of integers so small that every partial sum of a product is below 2^24."""
    weight, x = (
        integers(rng, *each) for each in ((weight_shape, weight_dtype), (x_shape, x_dtype))
    )
    x_len = named(x_dtype).block_len
    if x_len > 1 and x.size:
        weight = without_zero_products(weight, x.reshape(-1, x_shape[-1])[0])
    rows = np.abs(weight).reshape(-1, weight_shape[-1])
    largest = float((rows @ np.abs(x).T).max(initial=0))
    if largest >= 2.0**24:
        keep = rng.random(x_shape[-1] // x_len) < 2.0**23 / largest
        x = x * np.repeat(keep, x_len)
    return weight, x


def noise(weight: Array, x: Array, weight_var: Array, x_var: Array) -> Values:
    """The variance of a product whose terms are off independently."""
    return {"y": (weight**2 + weight_var) @ x_var + weight_var @ x**2}


def exact_for(weight_dtype: str, x_dtype: str) -> Any:
    """Integers for which no order of summation rounds."""

    def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
        n_rows, n_cols = sizes["n_rows"], sizes["n_cols"]
        weight, x = designed(rng, weight_dtype, (n_rows, n_cols), x_dtype, (n_cols,))
        return {"weight": weight, "x": x}

    return exact


def second(weight: Array, x: Array) -> Values:
    """`torch.mv` in float64."""
    import torch

    return {"y": torch.mv(torch.from_numpy(weight), torch.from_numpy(x)).numpy()}


def _operation(weight_dtype: str, x_dtype: str) -> Operation:
    block_len = max(named(weight_dtype).block_len, named(x_dtype).block_len)
    edges = (
        (1, 8, 16, 32, 64, 256, 1024, 2048)
        if block_len == 1
        else (32, 64, 128, 256, 1024, 4096, 8192)
    )
    return Operation(
        name=f"matvec_{weight_dtype}",
        doc=f"Multiplies a {weight_dtype} matrix by a {x_dtype} vector.\n"
        "y[r] = sum_k weight[r, k] * x[k]",
        axes=(
            Axis(
                name="n_rows",
                doc="rows of weight",
                edges=(1, 2, 5, 16, 33, 64, 128),
                long=MANY,
                rows=True,
            ),
            Axis(
                name="n_cols",
                doc="columns of weight",
                multiple_of=block_len,
                edges=edges,
                long=WIDTHS,
                neutral={"weight": 0.0, "x": 0.0},
            ),
        ),
        inputs=(
            Operand(name="weight", dtype=weight_dtype, axes=("n_rows", "n_cols"), doc="the matrix"),
            Operand(name="x", dtype=x_dtype, axes=("n_cols",), doc="the vector"),
        ),
        outputs=(Operand(name="y", dtype="f32", axes=("n_rows",), doc="the product"),),
        reference=reference,
        bound=bound_for(block_len),
        exact=exact_for(weight_dtype, x_dtype),
        second=second,
        noise=noise if block_len > 1 else None,
    )


OPERATIONS = [
    _operation("f32", "f32"),
    _operation("bf16", "f32"),
    _operation("q8_0", "q8_0"),
    _operation("q4_0", "q8_0"),
]
