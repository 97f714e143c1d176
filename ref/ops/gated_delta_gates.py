"""The gates of Gated DeltaNet: Mamba2's decay (Dao and Gu 2024, arXiv 2405.21060, sec. 7) as a
logarithm, and the share of a value that is written.
"""

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


def reference(a: Array, b: Array, a_log: Array, dt_bias: Array) -> Values:
    """gate = -exp(a_log) log(1 + exp(a + dt_bias)), beta = 1 / (1 + exp(-b)), in float64."""
    return {
        "gate": -np.exp(a_log) * np.logaddexp(0, a + dt_bias),
        "beta": 1 / (1 + np.exp(-b)),
    }


def bound(a: Array, b: Array, a_log: Array, dt_bias: Array) -> Values:
    """The sum a + dt_bias is off by u |a + dt_bias|, which softplus weakens by its slope, the
    sigmoid, and so does `exp_drift`. Then 4 u each for two exponentials and the logarithm, 4 u for
    the sums and products. beta as in `sigmoid_gate`. Where exp overflows or underflows, 2^-126.
    """
    steps = a + dt_bias
    slope = 1 / (1 + np.exp(-steps))
    lost = 1.01 * UNIT * np.abs(steps) + exp_drift(steps)
    drift = lost * slope + (gamma(16) + exp_drift(a_log)) * np.logaddexp(0, steps)
    rate = np.exp(a_log)
    beta = reference(a, b, a_log, dt_bias)["beta"]
    return {
        "gate": rate * (drift + 2 * SMALLEST_NORMAL) + SMALLEST_NORMAL,
        "beta": (gamma(8) + exp_drift(b) * (1 - beta)) * beta + 2 * SMALLEST_NORMAL,
    }


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Steps from 30 to 59, which softplus leaves alone, or below -200, which it makes 0; a_log 0
    or so low that the rate is 0; b where beta is 1, a half or 0.
    """
    n_tokens, n_heads = sizes["n_tokens"], sizes["n_heads"]
    open_ = rng.integers(0, 2, (n_tokens, n_heads)) == 1
    bias = rng.integers(0, 10, n_heads)
    return {
        "a": np.where(open_, rng.integers(30, 50, open_.shape), -300.0),
        "b": rng.choice([-200.0, 0.0, 30.0], open_.shape),
        "a_log": rng.choice([0.0, 0.0, -200.0], n_heads),
        "dt_bias": bias.astype(np.float64),
    }


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Rates from 1e-3 to 16 and steps of either sign, far out too."""
    n_tokens, n_heads = sizes["n_tokens"], sizes["n_heads"]
    scale = rng.choice([1.0, 5.0, 60.0], (n_tokens, n_heads))
    return {
        "a": scale * rng.standard_normal((n_tokens, n_heads)),
        "a_log": rng.uniform(np.log(1e-3), np.log(16), n_heads),
        "dt_bias": rng.standard_normal(n_heads),
    }


def second(a: Array, b: Array, a_log: Array, dt_bias: Array) -> Values:
    """`torch.logsumexp` and `torch.sigmoid` in float64."""
    import torch

    steps = torch.from_numpy(a + dt_bias)
    soft = torch.logsumexp(torch.stack([steps, torch.zeros_like(steps)]), dim=0)
    return {
        "gate": (-torch.exp(torch.from_numpy(a_log)) * soft).numpy(),
        "beta": torch.sigmoid(torch.from_numpy(b)).numpy(),
    }


_ROWS = ("n_tokens", "n_heads")

OPERATIONS = [
    Operation(
        name="gated_delta_gates",
        doc="Makes what gated_delta takes of projections: logarithms of decays, and betas.\n"
        "gate[t, h] = -exp(a_log[h]) * log(1 + exp(a[t, h] + dt_bias[h]))\n"
        "beta[t, h] = 1 / (1 + exp(-b[t, h]))",
        axes=(
            Axis(name="n_tokens", doc="tokens", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(name="n_heads", doc="value heads", edges=(1, 8, 16, 32, 48, 64), long=MANY[1:]),
        ),
        inputs=(
            Operand(name="a", dtype="f32", axes=_ROWS, doc="steps", limit=1e3),
            Operand(name="b", dtype="f32", axes=_ROWS, doc="before the sigmoid", limit=1e3),
            Operand(name="a_log", dtype="f32", axes=("n_heads",), doc="log of rates", limit=16.0),
            Operand(name="dt_bias", dtype="f32", axes=("n_heads",), doc="added to a", limit=1e3),
        ),
        outputs=(
            Operand(name="gate", dtype="f32", axes=_ROWS, doc="logarithm of the decay, <= 0"),
            Operand(name="beta", dtype="f32", axes=_ROWS, doc="0 to 1"),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
        structure=structure,
    )
]
