"""L2 norm of rows, which Gated DeltaNet applies to queries and keys (arXiv 2412.06464, 3.4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    WIDTHS,
    Axis,
    Operand,
    Operation,
    Scalar,
    Values,
    gamma,
    gaps,
)


def reference(x: Array, eps: float) -> Values:
    """y = x / sqrt(sum(x^2) + eps), in float64."""
    return {"y": x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)}


def bound(x: Array, eps: float) -> Values:
    """(n_cols / 2 + 5) u |y|: half the chain of the sum, as the root halves a relative error, and
    five roundings for the square, eps, the root, the division and the product. Squares that
    underflow cost at most n_cols * 2^-126 beside eps.
    """
    n_cols = x.shape[-1]
    underflow = n_cols * SMALLEST_NORMAL / eps
    want = np.abs(reference(x, eps)["y"])
    return {"y": want * (gamma(n_cols / 2 + 5) + underflow) + SMALLEST_NORMAL}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """4^j columns of one magnitude 2^k and the rest 0: the norm is 2^(j + k), eps rounds away."""
    n_rows, n_cols = sizes["n_rows"], sizes["n_cols"]
    x = np.zeros((n_rows, n_cols))
    for row in x:
        count = min(4 ** int(rng.integers(0, 6)), n_cols)
        count = 4 ** int(np.log2(count) / 2) if count else 0
        at = rng.choice(n_cols, size=count, replace=False)
        row[at] = rng.choice([-1.0, 1.0], size=count) * 2.0 ** rng.integers(0, 4)
    return {"x": x, "eps": 2.0**-40}


def second(x: Array, eps: float) -> Values:
    """Division by `torch.linalg.vector_norm` in float64, sqrt(eps) being one more column."""
    import torch

    rows = torch.from_numpy(x)
    more = torch.full((*x.shape[:-1], 1), eps**0.5, dtype=torch.float64)
    norms = torch.linalg.vector_norm(torch.cat([rows, more], dim=-1), dim=-1, keepdim=True)
    return {"y": (rows / norms).numpy()}


OPERATIONS = [
    Operation(
        name="l2_norm",
        doc="Scales each row to unit length.\ny[r, i] = x[r, i] / sqrt(sum_j x[r, j]^2 + eps)",
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(
                name="n_cols",
                doc="width of a row",
                edges=(1, 8, 16, 32, 64, 80, 96, 128, 256, 1024),
                long=WIDTHS,
                neutral={"x": 0.0},
            ),
            *gaps("x", "y"),
        ),
        inputs=(Operand(name="x", dtype="f32", axes=("n_rows", "n_cols"), doc="rows", limit=1e6),),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_rows", "n_cols"), doc="result", in_place="x"),
        ),
        scalars=(
            Scalar(
                name="eps",
                doc="added to the sum of squares; finite and > 0",
                samples=(1e-6, 1e-5, 1e-12, 0.5),
                invalid=(0.0, -1e-6, float("nan"), float("inf")),
            ),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
    )
]
