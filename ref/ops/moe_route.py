"""Routing of a mixture of experts: softmax over all experts, the best few, their weights made to
sum to one (as Qwen3 MoE does it; Shazeer et al. 2017, arXiv 1701.06538, eq. 3 to 5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers
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


def _best(logits: Array, n_top_k: int) -> tuple[Integers, Array]:
    """Ids of the best, of equals the lower id first, and their logits."""
    ids = np.argsort(-logits, axis=-1, kind="stable")[:, :n_top_k]
    return ids, np.take_along_axis(logits, ids, axis=-1)


def reference(logits: Array, n_top_k: int) -> Values:
    """The shares of all experts, the greatest n_top_k of them, divided by their sum. In float64;
    the sum over all experts cancels. A token with a NaN has no answer.
    """
    ids, best = _best(logits, n_top_k)
    weights = np.exp(best - best[:, :1])
    unknown = np.isnan(logits).any(axis=-1, keepdims=True)
    return {
        "expert_ids": np.where(unknown, np.nan, ids) if unknown.any() else ids,
        "weights": weights / weights.sum(axis=-1, keepdims=True),
    }


def bound(logits: Array, n_top_k: int) -> Values:
    """Ids are exact: comparisons do not round. Weights have softmax's bound over the chosen."""
    _, best = _best(logits, n_top_k)
    below = best[:, :1] - best
    weights = reference(logits, n_top_k)["weights"]
    lost = UNIT * below + exp_drift(below)
    drift = lost + (weights * lost).sum(axis=-1, keepdims=True)
    relative = gamma(n_top_k + 12) + drift
    return {
        "expert_ids": np.zeros(best.shape),
        "weights": weights * relative + SMALLEST_NORMAL * (1 + n_top_k * weights),
    }


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """A power of two of experts with the same logit, the others 1000 below and distinct: weights
    are 2^-j or 0, and the order of equals shows.
    """
    n_tokens, n_experts, n_top_k = sizes["n_tokens"], sizes["n_experts"], sizes["n_top_k"]
    logits = np.empty((n_tokens, n_experts))
    for row in logits:
        row[:] = -1000.0 - rng.permutation(n_experts)
        count = min(2 ** int(rng.integers(0, 6)), 2 ** int(np.log2(n_top_k)))
        row[rng.choice(n_experts, size=count, replace=False)] = 0
    return {"logits": logits + rng.integers(-9, 10, (n_tokens, 1))}


def close(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Logits a few floats apart, some of them equal."""
    steps = rng.integers(0, 64, (sizes["n_tokens"], sizes["n_experts"]))
    return {"logits": 4 * (1 + steps * 2.0**-23)}


def zeros(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Zeros of both signs, which are equal, and logits below them."""
    return {"logits": rng.choice([-0.0, 0.0, -1.0], (sizes["n_tokens"], sizes["n_experts"]))}


def second(logits: Array, n_top_k: int) -> Values:
    """`torch.softmax` over all and `torch.sort` in float64, then the division."""
    import torch

    shares = torch.softmax(torch.from_numpy(logits), dim=-1)
    ids = torch.sort(torch.from_numpy(-logits), dim=-1, stable=True).indices[:, :n_top_k]
    weights = shares.gather(-1, ids)
    return {"expert_ids": ids.numpy(), "weights": (weights / weights.sum(-1, True)).numpy()}


_CHOICES = ("n_tokens", "n_top_k")

OPERATIONS = [
    Operation(
        name="moe_route",
        doc="Chooses the experts of each token and their weights.\n"
        "p = softmax(logits[t]);  expert_ids[t] = the n_top_k of greatest p, greatest first, of\n"
        "equal ones the lower id first;  weights[t, u] = p[expert_ids[t, u]] / their sum",
        axes=(
            Axis(name="n_tokens", doc="tokens", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(
                name="n_experts",
                doc="experts",
                least=1,
                edges=(1, 8, 16, 60, 64, 128, 160, 256),
                long=(384, 512, 1024),
            ),
            Axis(
                name="n_top_k",
                doc="experts a token",
                least=1,
                most="n_experts",
                edges=(1, 2, 4, 6, 8, 10),
            ),
        ),
        inputs=(
            Operand(
                name="logits", dtype="f32", axes=("n_tokens", "n_experts"), doc="no NaN", limit=1e4
            ),
        ),
        outputs=(
            Operand(name="expert_ids", dtype="i32", axes=_CHOICES, doc="the chosen"),
            Operand(name="weights", dtype="f32", axes=_CHOICES, doc="their weights"),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        fills={"close": close, "zeros": zeros},
        second=second,
    )
]
