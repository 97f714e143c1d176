"""Matrix times several vectors: what a prompt or a batch of sequences asks of a weight. The bound
is that of matvec.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from hotfire.ref.ops.matvec import chain, designed


def reference(weight: Array, x: Array) -> Values:
    """y = x @ weight^T, in float64."""
    return {"y": x @ weight.T}


def bound_for(block_len: int) -> Reference:
    """That of matvec, a column."""

    def bound(weight: Array, x: Array) -> Values:
        n_cols = x.shape[-1]
        sums = size_of_sums(x @ weight.T, (x * x) @ (weight * weight).T)
        return {"y": walk(chain(n_cols, block_len)) * sums + n_cols * SMALLEST_NORMAL}

    return bound


def noise(weight: Array, x: Array, weight_var: Array, x_var: Array) -> Values:
    """That of matvec, a column."""
    return {"y": x_var @ (weight**2 + weight_var).T + x**2 @ weight_var.T}


def exact_for(weight_dtype: str, x_dtype: str) -> Any:
    """Integers small enough that every partial sum is below 2^24, so that no order rounds."""

    def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
        n_tokens, n_rows, n_cols = sizes["n_tokens"], sizes["n_rows"], sizes["n_cols"]
        weight, x = designed(rng, weight_dtype, (n_rows, n_cols), x_dtype, (n_tokens, n_cols))
        return {"weight": weight, "x": x}

    return exact


def second(weight: Array, x: Array) -> Values:
    """`torch.nn.functional.linear` in float64."""
    import torch

    return {"y": torch.nn.functional.linear(*map(torch.from_numpy, (x, weight))).numpy()}


def _operation(weight_dtype: str, x_dtype: str) -> Operation:
    block_len = max(named(weight_dtype).block_len, named(x_dtype).block_len)
    return Operation(
        name=f"matmul_{weight_dtype}",
        doc=f"Multiplies a {weight_dtype} matrix by {x_dtype} vectors.\n"
        "y[t, r] = sum_k weight[r, k] * x[t, k]\n"
        f"y[t] equals, to the bit, what hotfire_matvec_{weight_dtype} makes of x[t], by default.",
        axes=(
            Axis(
                name="n_tokens",
                doc="vectors",
                edges=(1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 128),
                long=MANY[1:],
                rows=True,
            ),
            Axis(
                name="n_rows",
                doc="rows of weight",
                edges=(1, 2, 5, 16, 33, 64, 128),
                long=MANY[1:],
            ),
            Axis(
                name="n_cols",
                doc="columns of weight",
                multiple_of=block_len,
                edges=(1, 8, 16, 32, 64, 256, 1024) if block_len == 1 else (32, 64, 128, 256, 1024),
                long=WIDTHS,
                neutral={"weight": 0.0, "x": 0.0},
            ),
        ),
        inputs=(
            Operand(name="weight", dtype=weight_dtype, axes=("n_rows", "n_cols"), doc="the matrix"),
            Operand(name="x", dtype=x_dtype, axes=("n_tokens", "n_cols"), doc="the vectors"),
        ),
        outputs=(Operand(name="y", dtype="f32", axes=("n_tokens", "n_rows"), doc="the products"),),
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
