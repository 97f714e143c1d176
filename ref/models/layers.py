"""The layers' formulas, float64, one sequence at a time, token axis first.

Each follows the model's description as measured against `transformers` 5.24 in float32; the
Gated DeltaNet is computed token by token, never in chunks, so that its result does not depend on
how a prompt is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotfire.ref.formats import Array, Integers
from hotfire.ref.models.config import Config
from hotfire.ref.models.state import KeyValues, Recurrent

L2_EPS = 1e-6
"""Added to the sum of squares of a query or key head."""

Weights = Mapping[str, Array]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def silu(x: Array) -> Array:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    y: Array = np.logaddexp(0.0, x)
    return y


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight along the last axis; callers add the 1 to the weight."""
    y: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight
    return y


def l2_norm(x: Array) -> Array:
    """x / sqrt(sum(x^2) + 1e-6) along the last axis."""
    y: Array = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + L2_EPS)
    return y


def causal_conv(u: Array, history: Array, weight: Array) -> tuple[Array, Array]:
    """Depthwise causal convolution, then SiLU.

    y[t, c] = silu(sum_j weight[c, j] * x[t + j, c]), x = history followed by u.

    Args:
        u: [n_tokens, n_conv].
        history: [conv_width - 1, n_conv], the inputs before u.
        weight: [n_conv, conv_width], the newest input last.

    Returns:
        [n_tokens, n_conv], and the history for the next tokens.
    """
    width = weight.shape[1]
    x = np.concatenate([history, u])
    y = sum(x[j : j + len(u)] * weight[:, j] for j in range(width))
    return silu(np.asarray(y)), x[len(u) :]


def delta_rule(
    q: Array, k: Array, v: Array, g: Array, beta: Array, s: Array
) -> tuple[Array, Array]:
    """The gated delta rule, token by token.

    S *= exp(g);  delta = beta (v - k^T S);  S += k delta^T;  o = q^T S.

    Args:
        q, k: [n_tokens, heads, key_dim]; v: [n_tokens, heads, value_dim].
        g, beta: [n_tokens, heads].
        s: [heads, key_dim, value_dim].

    Returns:
        [n_tokens, heads, value_dim], and S after the last token.
    """
    out = np.empty_like(v)
    decay = np.exp(g)[..., None, None]
    for t in range(len(q)):
        s = s * decay[t]
        delta = beta[t][:, None] * (v[t] - (k[t][:, None, :] @ s)[:, 0])
        s = s + k[t][:, :, None] * delta[:, None, :]
        out[t] = (q[t][:, None, :] @ s)[:, 0]
    return out, s


def delta_net(h: Array, w: Weights, config: Config, past: Recurrent) -> tuple[Array, Recurrent]:
    """A Gated DeltaNet mixer: [n_tokens, n_embd] normed -> [n_tokens, n_embd], and its state."""
    n, heads = len(h), config.n_value_heads
    n_qk = config.n_key_heads * config.key_dim
    u, conv = causal_conv(
        h @ w["in_proj_qkv.weight"].T, past.conv, w["conv1d.weight"].reshape(-1, config.conv_width)
    )
    repeat = heads // config.n_key_heads
    q = u[:, :n_qk].reshape(n, config.n_key_heads, -1).repeat(repeat, axis=1)
    k = u[:, n_qk : 2 * n_qk].reshape(n, config.n_key_heads, -1).repeat(repeat, axis=1)
    v = u[:, 2 * n_qk :].reshape(n, heads, -1)
    g = -np.exp(w["A_log"]) * softplus(h @ w["in_proj_a.weight"].T + w["dt_bias"])
    beta = sigmoid(h @ w["in_proj_b.weight"].T)
    o, s = delta_rule(l2_norm(q) / np.sqrt(config.key_dim), l2_norm(k), v, g, beta, past.s)
    z = (h @ w["in_proj_z.weight"].T).reshape(o.shape)
    gated = rms_norm(o, w["norm.weight"], config.eps) * silu(z)
    return gated.reshape(n, -1) @ w["out_proj.weight"].T, Recurrent(conv, s)


def rotate(x: Array, pos: Integers, n_rot: int, theta: float) -> Array:
    """NeoX-style RoPE on the first n_rot dims: pairs (i, i + n_rot / 2) turn by
    pos * theta^(-2 i / n_rot).

    Args:
        x: [n_tokens, heads, head_dim].
        pos: [n_tokens].
    """
    half = n_rot // 2
    angle = pos[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:n_rot]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., n_rot:]], axis=-1)


def attention(
    h: Array, w: Weights, config: Config, past: KeyValues, n_past: int
) -> tuple[Array, KeyValues]:
    """Gated grouped-query attention: [n_tokens, n_embd] normed -> the same, and its keys, values.

    out = o_proj(softmax(q k^T head_dim^-1/2, causal) v * sigmoid(gate)).
    """
    n, dim = len(h), config.head_dim
    q, gate = np.split((h @ w["q_proj.weight"].T).reshape(n, config.n_heads, 2 * dim), 2, axis=-1)
    k = (h @ w["k_proj.weight"].T).reshape(n, config.n_kv_heads, dim)
    v = (h @ w["v_proj.weight"].T).reshape(n, config.n_kv_heads, dim)
    pos = n_past + np.arange(n)
    rope = (pos, config.n_rot, config.rope_theta)
    q = rotate(rms_norm(q, 1 + w["q_norm.weight"], config.eps), *rope)
    k = rotate(rms_norm(k, 1 + w["k_norm.weight"], config.eps), *rope)
    now = KeyValues(np.concatenate([past.k, k]), np.concatenate([past.v, v]))
    groups = q.reshape(n, config.n_kv_heads, -1, dim)
    scores = np.einsum("tgrd,sgd->grts", groups, now.k, optimize=True) / np.sqrt(dim)
    key_pos = np.arange(len(now.k)) - (len(now.k) - n) + n_past
    scores = np.where(key_pos > pos[:, None], -np.inf, scores)
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    out = np.einsum("grts,sgd->tgrd", weight, now.v, optimize=True).reshape(n, -1)
    return (out * sigmoid(gate.reshape(n, -1))) @ w["o_proj.weight"].T, now


def mlp(h: Array, w: Weights, prefix: str = "") -> Array:
    """down(silu(gate(h)) * up(h))."""
    gate, up = h @ w[f"{prefix}gate_proj.weight"].T, h @ w[f"{prefix}up_proj.weight"].T
    return (silu(gate) * up) @ w[f"{prefix}down_proj.weight"].T


@dataclass(frozen=True)
class Routing:
    """Where a router sends tokens.

    Args:
        experts: [n_tokens, n_experts_used]; of equal logits the lower id is taken.
        weights: the same shape, sums to 1 a token.
        margin: [n_tokens] how far the last chosen logit is above the first not chosen, relative
            to the RMS of the token's logits.
    """

    experts: Integers
    weights: Array
    margin: Array


def route(logits: Array, n_used: int) -> Routing:
    """Softmax over all experts, the n_used largest, renormalised."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    chosen = order[:, :n_used]
    ranked = np.take_along_axis(logits, order, axis=-1)
    weights = np.exp(ranked[:, :n_used] - ranked[:, :1])
    weights /= weights.sum(axis=-1, keepdims=True)
    everyone = n_used == logits.shape[1]
    margin = np.full(len(logits), np.inf)
    if not everyone:
        margin = (ranked[:, n_used - 1] - ranked[:, n_used]) / np.sqrt(np.mean(logits**2, axis=1))
    return Routing(chosen.astype(np.int64), weights, margin)


def experts(h: Array, w: Weights, config: Config) -> tuple[Array, Array]:
    """A mixture of experts plus sigmoid(shared_gate h) * shared_expert(h).

    Returns:
        [n_tokens, n_embd], and the router's margin [n_tokens].
    """
    routing = route(h @ w["gate.weight"].T, config.n_experts_used)
    out = sigmoid(h @ w["shared_expert_gate.weight"].T) * mlp(h, w, "shared_expert.")
    for expert in np.unique(routing.experts):
        token, place = np.nonzero(routing.experts == expert)
        gate, up = np.split(h[token] @ w["experts.gate_up_proj"][expert].T, 2, axis=-1)
        part = (silu(gate) * up) @ w["experts.down_proj"][expert].T
        out[token] += routing.weights[token, place, None] * part
    return out, routing.margin
