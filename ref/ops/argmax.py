"""Argmax over the last axis: the greedy token of each row of logits. Of equals the first, as in
`numpy.argmax`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array
from hotfire.ref.operation import MANY, Axis, Operand, Operation, Values


def reference(x: Array) -> Values:
    """y = the first column whose value no other exceeds; a row with a NaN has no answer."""
    found = x.argmax(axis=-1)
    unknown = np.isnan(x).any(axis=-1)
    return {"y": np.where(unknown, np.nan, found) if unknown.any() else found}


def bound(x: Array) -> Values:
    """0: comparisons do not round, and of equals the first is right."""
    return {"y": np.zeros(x.shape[0])}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Few distinct values, of both signs or below 0 throughout, so that most maxima are tied; in
    half of the rows the first of them lies anywhere, far out too.
    """
    shape = (sizes["n_rows"], sizes["n_cols"])
    values = rng.integers(-4, 5, shape) * 0.25
    values = values - 2.0 * rng.integers(0, 2, (shape[0], 1))
    first = rng.integers(0, shape[1], (shape[0], 1)) * rng.integers(0, 2, (shape[0], 1))
    return {"x": np.where(np.arange(shape[1]) < first, values - 4, values)}


def close(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Values one float apart, which a coarser format makes equal."""
    shape = (sizes["n_rows"], sizes["n_cols"])
    steps = rng.integers(0, 64, shape)
    return {"x": (rng.choice([-1.0, 1.0], (shape[0], 1)) * (1 + steps * 2.0**-23))}


def zeros(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Zeros of both signs, which are equal, and values below them."""
    return {"x": rng.choice([-0.0, 0.0, -1.0], (sizes["n_rows"], sizes["n_cols"]))}


def second(x: Array) -> Values:
    """A loop that keeps the first of the greatest values seen."""
    found = np.zeros(x.shape[0], dtype=np.int64)
    for column in range(1, x.shape[1]):
        greater = x[:, column] > x[np.arange(x.shape[0]), found]
        found[greater] = column
    return {"y": found}


OPERATIONS = [
    Operation(
        name="argmax",
        doc="Finds the greatest value of each row; of equal ones the first. Values are no NaN.\n"
        "y[r] = min {i : x[r, i] = max_j x[r, j]}",
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(
                name="n_cols",
                doc="width of a row",
                least=1,
                most="2147483647",
                edges=(1, 8, 16, 32, 64, 256, 1024),
                long=(2049, 4097, 32769, 65537, 151936, 248320),
                neutral={"x": -np.inf},
            ),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_rows", "n_cols"), doc="scores", limit=1e6),
        ),
        outputs=(Operand(name="y", dtype="i32", axes=("n_rows",), doc="columns"),),
        reference=reference,
        bound=bound,
        exact=exact,
        fills={"close": close, "zeros": zeros},
        second=second,
    )
]
