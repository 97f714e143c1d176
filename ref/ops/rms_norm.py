"""RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467, eq. 4), in three weightings.

Qwen3.5 uses 1 + weight for its blocks, queries and keys, and the gated one behind Gated DeltaNet.
"""

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
    exp_drift,
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


_EMBD = Axis(
    name="n_embd",
    doc="width of a row",
    edges=(1, 8, 16, 32, 64, 80, 96, 128, 256, 1024),
    long=WIDTHS,
)

EPS = Scalar(
    name="eps",
    doc="added to the mean square; finite and > 0",
    samples=(1e-6, 1e-5, 1e-12, 0.5),
    invalid=(0.0, -1e-6, float("nan"), float("inf")),
)


def gain_of(weight: Array) -> Array:
    """The gain of RMSNorm where weights are trained around 0: 1 + weight."""
    return 1 + weight


def reference_plus_one(x: Array, weight: Array, eps: float) -> Values:
    """y = x / sqrt(mean(x^2) + eps) * (1 + weight), in float64."""
    return reference(x, gain_of(weight), eps)


def bound_plus_one(x: Array, weight: Array, eps: float) -> Values:
    """That of RMSNorm, and one more rounding for 1 + weight."""
    plain = bound(x, gain_of(weight), eps)["y"]
    return {"y": plain + gamma(1) * np.abs(reference_plus_one(x, weight, eps)["y"])}


def exact_plus_one(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """The rows of `exact`; 1 + weight are its weights."""
    drawn = exact(rng, sizes)
    return {**drawn, "weight": drawn["weight"] - 1}


def second_plus_one(x: Array, weight: Array, eps: float) -> Values:
    """`torch.nn.functional.rms_norm` in float64, of 1 + weight."""
    return second(x, gain_of(weight), eps)


def reference_gated(x: Array, weight: Array, gate: Array, eps: float) -> Values:
    """y = x / sqrt(mean(x^2) + eps) * weight * silu(gate), in float64."""
    return {"y": reference(x, weight, eps)["y"] * (gate / (1 + np.exp(-gate)))}


def bound_gated(x: Array, weight: Array, gate: Array, eps: float) -> Values:
    """Those of RMSNorm and of SiLU, relative, one product more; and SiLU's flush to zero."""
    own = gamma(9) + exp_drift(gate) / (1 + np.exp(gate))
    normed = np.abs(reference(x, weight, eps)["y"])
    factor = np.abs(gate / (1 + np.exp(-gate)))
    product = bound(x, weight, eps)["y"] * factor + own * normed * factor
    flush = np.abs(gate) * SMALLEST_NORMAL * (1 + normed)
    return {"y": product * (1 + own) + flush + SMALLEST_NORMAL}


def exact_gated(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """The rows of `exact`; gates are integers from 30 to 61, which SiLU leaves alone, or 0."""
    drawn = exact(rng, sizes)
    gate = rng.integers(30, 62, drawn["x"].shape) * rng.integers(0, 2, drawn["x"].shape)
    return {**drawn, "gate": gate.astype(np.float64)}


def second_gated(x: Array, weight: Array, gate: Array, eps: float) -> Values:
    """`torch.nn.functional.rms_norm` and `silu` in float64."""
    import torch

    factor = torch.nn.functional.silu(torch.from_numpy(gate)).numpy()
    return {"y": second(x, weight, eps)["y"] * factor}


def _operation(name: str, doc: str, gated: bool, **functions: Any) -> Operation:
    x = Operand(name="x", dtype="f32", axes=("n_tokens", "n_embd"), doc="rows", limit=1e6)
    weight = Operand(name="weight", dtype="f32", axes=("n_embd",), doc="gain of each column")
    gate = Operand(name="gate", dtype="f32", axes=("n_tokens", "n_embd"), doc="gates")
    return Operation(
        name=name,
        doc=doc,
        axes=(
            Axis(name="n_tokens", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            _EMBD,
        ),
        inputs=(x, weight, gate) if gated else (x, weight),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_tokens", "n_embd"), doc="result", in_place="x"),
        ),
        scalars=(EPS,),
        **functions,
    )


OPERATIONS = [
    _operation(
        "rms_norm",
        "Scales each row to unit root mean square.\n"
        "y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * weight[i]",
        gated=False,
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
    ),
    _operation(
        "rms_norm_plus_one",
        "Scales each row to unit root mean square; weights are trained around 0.\n"
        "y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * (1 + weight[i])",
        gated=False,
        reference=reference_plus_one,
        bound=bound_plus_one,
        exact=exact_plus_one,
        second=second_plus_one,
    ),
    _operation(
        "rms_norm_gated",
        "Scales each row to unit root mean square and gates it.\n"
        "y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * weight[i] * silu(gate[t, i])",
        gated=True,
        reference=reference_gated,
        bound=bound_gated,
        exact=exact_gated,
        second=second_gated,
    ),
]
