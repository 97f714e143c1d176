"""Softmax over the last axis, shifted by the row's maximum (Blanchard et al. 2021, alg. 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    UNIT,
    Axis,
    Operand,
    Operation,
    Values,
    exp_drift,
    gamma,
)


def reference(x: Array) -> Values:
    """y = exp(x - max(x)) / sum(exp(x - max(x))), in float64."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return {"y": weights / weights.sum(axis=-1, keepdims=True)}


def bound(x: Array) -> Values:
    """Relative, an element: what rounding x_i - max costs the exponential, |x_i - max| u, and what
    a power of two costs, `exp_drift`; the same averaged over the sum, n u for the sum's chain, and
    8 u for two exponentials of 2 ulp, the division and the reciprocal. Where exp underflows, 2^-126
    a term.

    A constant in ulp would be wrong both ways: the row [15, 0 x 74] breaks 64 ulp legally.
    """
    shift = np.where(np.isfinite(x), x.max(axis=-1, keepdims=True) - x, 0)
    y = reference(x)["y"]
    lost = UNIT * shift + exp_drift(shift)
    drift = lost + (y * lost).sum(axis=-1, keepdims=True)
    n_cols = x.shape[-1]
    return {"y": y * (gamma(n_cols + 8) + drift) + SMALLEST_NORMAL * (1 + n_cols * y)}


def _masks(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """[n_rows, n_cols]: which columns a row does not see: those before one and from another on, as
    padding and causal masks have them, and runs of 8 between. One column at least stays.
    """
    n_rows, n_cols = shape
    columns = np.arange(n_cols)
    first, end = np.sort(rng.integers(0, n_cols + 1, (2, n_rows, 1)), axis=0)
    runs = np.repeat(rng.random((n_rows, -(-n_cols // 8))) < 0.3, 8, axis=1)[:, :n_cols]
    hidden = (columns < first) | (columns >= end) | runs
    kept = rng.integers(0, n_cols, n_rows)
    hidden[np.arange(n_rows), kept] = False
    return hidden


def masked(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Whole tiles of a row masked, the first ones too, where a running maximum has not begun."""
    shape = (sizes["n_rows"], sizes["n_cols"])
    if not all(shape):
        return {"x": np.zeros(shape)}
    return {"x": np.where(_masks(rng, shape), -np.inf, 4 * rng.standard_normal(shape))}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """2^j columns at the maximum and the rest masked or 1000 below it: y is 2^-j or 0."""
    n_rows, n_cols = sizes["n_rows"], sizes["n_cols"]
    x = np.empty((n_rows, n_cols))
    for row in x:
        top = float(rng.integers(-8, 9))
        row[:] = rng.choice([-np.inf, top - 1000.0], size=n_cols)
        count = 2 ** int(rng.integers(0, int(np.log2(n_cols)) + 1)) if n_cols else 0
        row[rng.choice(n_cols, size=count, replace=False)] = top
    return {"x": x}


def second(x: Array) -> Values:
    """`torch.softmax` in float64."""
    import torch

    return {"y": torch.softmax(torch.from_numpy(x), dim=-1).numpy()}


OPERATIONS = [
    Operation(
        name="softmax",
        doc="Turns each row into weights that sum to one.\n"
        "y[r, i] = exp(x[r, i] - max_j x[r, j]) / sum_k exp(x[r, k] - max_j x[r, j])\n"
        "An x of -inf masks its column; a row needs one finite x.",
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(
                name="n_cols",
                doc="width of a row",
                edges=(1, 8, 16, 32, 64, 256, 1024),
                long=(2049, 4097, 8193, 14081, 65537),
                neutral={"x": -np.inf},
            ),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_rows", "n_cols"), doc="scores", limit=1e4),
        ),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_rows", "n_cols"), doc="weights", in_place="x"),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        fills={"masked": masked},
        second=second,
    )
]
