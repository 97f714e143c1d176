"""Sum of a token's experts and of the expert that all tokens share (as Qwen3.5 MoE does it)."""

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
    size_of_sums,
    walk,
)


def reference(experts: Array, weights: Array, shared: Array, shared_gate: Array) -> Values:
    """y = sum_u weights_u experts_u + shared / (1 + exp(-shared_gate)), in float64."""
    share = 1 / (1 + np.exp(-shared_gate))[:, None]
    return {"y": np.einsum("tu,tui->ti", weights, experts) + share * shared}


def bound(experts: Array, weights: Array, shared: Array, shared_gate: Array) -> Values:
    """That of a product with n_top_k + 1 terms, one of which has the eight roundings of the
    sigmoid and its `exp_drift`; see `walk`.
    """
    n_top_k = weights.shape[1]
    share = 1 / (1 + np.exp(-shared_gate))[:, None]
    squares = np.einsum("tu,tui->ti", weights**2, experts**2) + (share * shared) ** 2
    total = reference(experts, weights, shared, shared_gate)["y"]
    flush = (n_top_k + 2 + np.abs(shared)) * SMALLEST_NORMAL
    drift = (exp_drift(shared_gate) / (1 + np.exp(shared_gate)))[:, None] * np.abs(share * shared)
    return {"y": walk(n_top_k + 10) * size_of_sums(total, squares) + drift + flush}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Integers, weights that are distinct powers of two, gates where the sigmoid is 0, 1/2 or 1."""
    n_tokens, n_top_k, n_embd = sizes["n_tokens"], sizes["n_top_k"], sizes["n_embd"]
    return {
        "experts": rng.integers(-127, 128, (n_tokens, n_top_k, n_embd)).astype(np.float64),
        "weights": 2.0 ** rng.integers(-4, 4, (n_tokens, n_top_k)),
        "shared": 2.0 * rng.integers(-127, 128, (n_tokens, n_embd)),
        "shared_gate": rng.choice([-200.0, 0.0, 60.0], n_tokens),
    }


def second(experts: Array, weights: Array, shared: Array, shared_gate: Array) -> Values:
    """`torch.bmm` and `torch.sigmoid` in float64."""
    import torch

    routed = torch.bmm(torch.from_numpy(weights)[:, None], torch.from_numpy(experts))[:, 0]
    share = torch.sigmoid(torch.from_numpy(shared_gate))[:, None]
    return {"y": (routed + share * torch.from_numpy(shared)).numpy()}


OPERATIONS = [
    Operation(
        name="moe_combine",
        doc="Adds up a token's experts and the shared one, weighed by the sigmoid of its gate.\n"
        "y[t, i] = sum_u weights[t, u] * experts[t, u, i]\n"
        "          + shared[t, i] / (1 + exp(-shared_gate[t]))",
        axes=(
            Axis(name="n_tokens", doc="tokens", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(name="n_top_k", doc="experts a token", edges=(1, 2, 4, 6, 8, 10)),
            Axis(
                name="n_embd",
                doc="width of a row",
                long=WIDTHS,
                neutral={"experts": 0.0, "shared": 0.0},
            ),
        ),
        inputs=(
            Operand(
                name="experts",
                dtype="f32",
                axes=("n_tokens", "n_top_k", "n_embd"),
                doc="what the chosen experts gave, zeros for an id out of range",
            ),
            Operand(name="weights", dtype="f32", axes=("n_tokens", "n_top_k"), doc="their weights"),
            Operand(
                name="shared", dtype="f32", axes=("n_tokens", "n_embd"), doc="the shared expert's"
            ),
            Operand(name="shared_gate", dtype="f32", axes=("n_tokens",), doc="its gate"),
        ),
        outputs=(
            Operand(
                name="y", dtype="f32", axes=("n_tokens", "n_embd"), doc="sum", in_place="shared"
            ),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
    )
]
