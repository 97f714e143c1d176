"""SiLU (Elfwing et al. 2018, arXiv 1702.03118, eq. 2)."""

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
    Values,
    exp_drift,
    gamma,
)


def reference(x: Array) -> Values:
    """y = x / (1 + exp(-x)), in float64."""
    return {"y": x / (1 + np.exp(-x))}


def bound(x: Array) -> Values:
    """8 u |y|: 2 ulp for exp of the exact -x, the sum, the division; and `exp_drift` as far as exp
    counts beside 1. Where exp overflows f32, near x = -88, y may be flushed: it is then at most
    |x| 2^-126.
    """
    want = np.abs(reference(x)["y"])
    drift = exp_drift(x) / (1 + np.exp(x))
    return {"y": (gamma(8) + drift) * want + np.abs(x) * SMALLEST_NORMAL}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Integers of at least 30, where y rounds to x, zeros, and integers below -200: y is 0."""
    shape = (sizes["n_rows"], sizes["n_cols"])
    values = np.arange(30.0, 30.0 + shape[0] * shape[1]).reshape(shape)
    return {"x": np.choose(rng.integers(0, 3, shape), [values, 0 * values, -200 - values])}


def second(x: Array) -> Values:
    """`torch.nn.functional.silu` in float64."""
    import torch

    return {"y": torch.nn.functional.silu(torch.from_numpy(x)).numpy()}


OPERATIONS = [
    Operation(
        name="silu",
        doc="Weighs each value by its own sigmoid.\ny[r, i] = x[r, i] / (1 + exp(-x[r, i]))",
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(name="n_cols", doc="width of a row", long=(*WIDTHS, 65537), neutral={"x": 0.0}),
        ),
        inputs=(Operand(name="x", dtype="f32", axes=("n_rows", "n_cols"), doc="values"),),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_rows", "n_cols"), doc="values", in_place="x"),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
    )
]
