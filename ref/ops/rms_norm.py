"""RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467, eq. 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array
from hotfire.ref.operation import (
    SMALLEST_NORMAL,
    Axis,
    Operand,
    Operation,
    Scalar,
    Values,
    gamma,
)


def reference(x: Array, weight: Array, eps: float) -> Values:
    """y = x / sqrt(mean(x^2) + eps) * weight, in float64."""
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return {"y": x / np.sqrt(mean_square + eps) * weight}


def bound(x: Array, weight: Array, eps: float) -> Values:
    """(n_embd / 2 + 6) u |y|: half the chain of the sum, as the root halves a relative error,
    and six roundings for the square, the division, eps, the root and two products. A square
    that underflows costs at most n * 2^-126 beside eps.
    """
    want = np.abs(reference(x, weight, eps)["y"])
    underflow = SMALLEST_NORMAL / eps
    return {"y": want * (gamma(x.shape[-1] / 2 + 6) + underflow) + SMALLEST_NORMAL}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Rows of one magnitude 2^k, so that the mean of squares is 4^k and eps rounds away."""
    shape = (sizes["n_tokens"], sizes["n_embd"])
    magnitude = 2.0 ** rng.integers(0, 4, size=(shape[0], 1))
    signs = rng.choice([-1.0, 1.0], size=shape)
    weight = rng.permutation(np.arange(1.0, shape[1] + 1))
    return {"x": signs * magnitude, "weight": weight, "eps": 2.0**-40}


def second(x: Array, weight: Array, eps: float) -> Values:
    """`torch.nn.functional.rms_norm` in float64."""
    import torch

    y = torch.nn.functional.rms_norm(
        torch.from_numpy(x), (x.shape[-1],), torch.from_numpy(weight), eps
    )
    return {"y": y.numpy()}


OPERATIONS = [
    Operation(
        name="rms_norm",
        doc="Scales each row to unit root mean square.\n"
        "y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * weight[i]",
        axes=(
            Axis(name="n_tokens", doc="rows", edges=(1, 2, 5, 17), rows=True),
            Axis(name="n_embd", doc="width of a row", edges=(1, 8, 16, 32, 64, 256, 1024)),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_tokens", "n_embd"), doc="rows", limit=1e6),
            Operand(name="weight", dtype="f32", axes=("n_embd",), doc="gain of each column"),
        ),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_tokens", "n_embd"), doc="result", in_place="x"),
        ),
        scalars=(
            Scalar(
                name="eps",
                doc="added to the mean square; finite and > 0",
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
