"""Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464, eq. 10), with its state carried on.

Queries and keys come normalised (`l2_norm`), gates as logarithms (`gated_delta_gates`). A kernel
goes token by token (`gated_delta`), or solves a chunk of tokens at once by the triangular system of
the WY form (sec. 3.3 there; `gated_delta_chunked`). Both compute the same function.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    Axis,
    Operand,
    Operation,
    Scalar,
    Sequences,
    Values,
    exp_drift,
    gamma,
)
from hotfire.ref.sequences import (
    HALF_LIFE_MAX,
    draw_flags,
    draw_log_gates,
    draw_starts,
    spans,
)

SLACK = 1 + 2.0**-6
"""Covers products of rounding errors, which the first-order analysis leaves out."""


def _heads(shared: Array, n_heads: int, tiled: int) -> Array:
    """[..., n_k_heads, k_dim] -> [..., n_heads, k_dim]: neighbours share a key head, or if tiled,
    heads n_k_heads apart.
    """
    n_k_heads = shared.shape[-2]
    heads = np.arange(n_heads)
    of = heads % max(1, n_k_heads) if tiled else heads // max(1, n_heads // max(1, n_k_heads))
    taken: Array = shared[..., of, :]
    return taken


def _begin(state: Array, has_state: Integers, seq: int) -> Array:
    """[n_heads, k_dim, v_dim]: the state that the sequence goes on from."""
    return state[seq].copy() if has_state[seq] else np.zeros_like(state[seq])


def _row(vectors: Array, matrices: Array) -> Array:
    """[n_heads, k] times [n_heads, k, v]."""
    products: Array = (vectors[:, None, :] @ matrices)[:, 0]
    return products


def reference(
    q: Array,
    k: Array,
    v: Array,
    gate: Array,
    beta: Array,
    seq_start: Integers,
    has_state: Integers,
    state: Array,
    scale: float,
    tiled: int,
) -> Values:
    """S = exp(g) S; delta = beta (v - k^T S); S += k delta^T; y = scale q^T S, in float64."""
    queries, keys = (_heads(each, v.shape[1], tiled) for each in (q, k))
    y, kept = np.zeros_like(v), state.copy()
    for seq, (first, end) in enumerate(spans(seq_start)):
        if first == end:
            continue
        s = _begin(state, has_state, seq)
        for t in range(first, end):
            s *= np.exp(gate[t])[:, None, None]
            delta = beta[t][:, None] * (v[t] - _row(keys[t], s))
            s += keys[t][:, :, None] * delta[:, None, :]
            y[t] = scale * _row(queries[t], s)
        kept[seq] = s
    return {"y": y, "state": kept}


def bound(
    q: Array,
    k: Array,
    v: Array,
    gate: Array,
    beta: Array,
    seq_start: Integers,
    has_state: Integers,
    state: Array,
    scale: float,
    tiled: int,
    chunk_len: int = 1,
) -> Values:
    """The running error of a chunk's arithmetic, normwise down a column of the state.

    An error e that a column has picked up goes on as exp(g) (I - beta k k^T) e, whose norm is at
    most exp(g) max(1, |1 - beta |k|^2|) |e|: for normalised keys nothing grows, however long the
    sequence. What a token adds: the rounding of k^T S, gamma_d times the same sum of magnitudes,
    through beta and |k|; `exp_drift` of its decay, times the norm of what decays; and, at the end
    of each chunk, the rounding of the state, gamma_c times the norm of what the chunk sums up. d is
    the length of the sums, k_dim and the chunk, and five roundings a decay; c is the chunk and its
    decays. Token by token the chunk is 1.
    """
    n_heads, k_dim = v.shape[1], k.shape[2]
    queries, keys = np.abs(_heads(q, n_heads, tiled)), _heads(k, n_heads, tiled)
    long, short = gamma(k_dim + 6 * chunk_len + 4), gamma(6 * chunk_len + 4)
    y, kept = np.zeros_like(v), np.zeros_like(state)
    for seq, (first, end) in enumerate(spans(seq_start)):
        s = _begin(state, has_state, seq)
        summed = np.abs(s)
        error = np.zeros((n_heads, s.shape[2]))
        for t in range(first, end):
            decay, rate = np.exp(gate[t])[:, None], np.abs(beta[t])[:, None]
            key, length = np.abs(keys[t]), np.linalg.norm(keys[t], axis=1)[:, None]
            s *= decay[:, :, None]
            summed *= decay[:, :, None]
            drift = exp_drift(gate[t])[:, None] * np.linalg.norm(summed, axis=1)
            read = _row(keys[t], s)
            delta = beta[t][:, None] * (v[t] - read)
            rounding = long * _row(key, summed) + gamma(3) * (np.abs(v[t]) + np.abs(read))
            s += keys[t][:, :, None] * delta[:, None, :]
            summed += key[:, :, None] * np.abs(delta)[:, None, :]
            shrink = np.maximum(1, np.abs(1 - beta[t][:, None] * length**2))
            flush = SMALLEST_NORMAL * (k_dim + 4) * (1 + length) * (1 + rate)
            error = shrink * (decay * error + drift) + length * rate * rounding + flush
            at_end = (t + 1 - first) % chunk_len == 0 or t + 1 == end
            if at_end:
                error += shrink * short * np.linalg.norm(summed, axis=1)
            far = np.linalg.norm(queries[t], axis=1)[:, None] * error
            near = long * _row(queries[t], summed)
            y[t] = SLACK * abs(scale) * (far + near) + flush * (1 + abs(scale))
            if at_end:
                np.abs(s, out=summed)
        if end > first:
            kept[seq] = SLACK * error[:, None, :]
    return {"y": y, "state": kept}


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Vectors of length 1, every other one near the one before it: keys that meet again."""
    drawn = rng.standard_normal(shape)
    drawn[1::2] = drawn[: len(drawn) // 2 * 2 : 2] + 0.5 * drawn[1::2]
    lengths = np.linalg.norm(drawn, axis=-1, keepdims=True)
    unit: Array = drawn / np.maximum(lengths, 1e-3)
    return unit


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Normalised queries and keys, slow gates, any division of the tokens."""
    n_tokens, n_heads = sizes["n_tokens"], sizes["n_k_heads"] * sizes["n_groups"]
    keys = (n_tokens, sizes["n_k_heads"], sizes["k_dim"])
    return {
        "q": _unit(rng, keys),
        "k": _unit(rng, keys),
        "gate": draw_log_gates(rng, (n_tokens, n_heads)),
        "beta": rng.uniform(0, 1, (n_tokens, n_heads)),
        "seq_start": draw_starts(rng, n_tokens, sizes["n_seqs"]),
        "has_state": draw_flags(rng, sizes["n_seqs"]),
    }


def corners(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Gates of 0 and so low that they close, beta 0 and 1, keys and queries of zeros."""
    drawn = structure(rng, sizes)
    shape = drawn["gate"].shape
    drawn["gate"] = np.choose(rng.integers(0, 4, shape), [drawn["gate"], 0, -80, -1000])
    drawn["beta"] = np.choose(rng.integers(0, 3, shape), [drawn["beta"], 0, 1])
    drawn["q"] *= rng.integers(0, 4, (*drawn["q"].shape[:2], 1)) > 0
    drawn["k"] *= rng.integers(0, 4, (*drawn["k"].shape[:2], 1)) > 0
    return drawn


def slow(_: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Every gate at the longest half-life: what a state loses to rounding adds up."""
    n_heads = sizes["n_k_heads"] * sizes["n_groups"]
    return {"gate": np.full((sizes["n_tokens"], n_heads), -np.log(2) / HALF_LIFE_MAX)}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Keys with one entry of 1 or -1, beta 0 or 1, gates open or shut: a token replaces or keeps
    rows of a state of integers that bf16 cannot hold.
    """
    drawn = structure(rng, sizes)
    n_tokens, n_k_heads, k_dim = drawn["k"].shape
    n_heads = n_k_heads * sizes["n_groups"]
    hot = np.zeros((n_tokens, n_k_heads, k_dim))
    if k_dim:
        at = rng.integers(0, k_dim, (n_tokens, n_k_heads, 1))
        np.put_along_axis(hot, at, rng.choice([-1.0, 1.0], at.shape), axis=2)

    def whole(*shape: int) -> Array:
        values: Array = rng.integers(-1023, 1024, shape).astype(np.float64)
        return values

    return {
        **drawn,
        "q": rng.integers(-7, 8, hot.shape).astype(np.float64),
        "k": hot,
        "v": whole(n_tokens, n_heads, sizes["v_dim"]),
        "gate": np.where(rng.random((n_tokens, n_heads)) < 0.9, 0.0, -1000.0),
        "beta": np.where(rng.random((n_tokens, n_heads)) < 0.7, 1.0, 0.0),
        "state": whole(sizes["n_seqs"], n_heads, k_dim, sizes["v_dim"]),
        "scale": 0.125,
    }


def second(
    q: Array,
    k: Array,
    v: Array,
    gate: Array,
    beta: Array,
    seq_start: Integers,
    has_state: Integers,
    state: Array,
    scale: float,
    tiled: int,
    chunk_len: int = 1 << 31,
) -> Values:
    """The WY form, of a whole sequence or of chunk_len tokens at once, by
    `torch.linalg.solve_triangular` in float64.
    """
    import torch

    n_heads = v.shape[1]
    y, kept = np.zeros_like(v), state.copy()
    for seq, (first, end) in enumerate(spans(seq_start)):
        before = torch.from_numpy(_begin(state, has_state, seq))
        for at in range(first, end, chunk_len):
            take = slice(at, min(end, at + chunk_len))
            queries, keys, values, rates = (
                torch.from_numpy(each)
                for each in (
                    _heads(q[take], n_heads, tiled).transpose(1, 0, 2),
                    _heads(k[take], n_heads, tiled).transpose(1, 0, 2),
                    v[take].transpose(1, 0, 2),
                    beta[take].T[:, :, None],
                )
            )
            total = torch.from_numpy(gate[take].T).cumsum(dim=1)
            between = torch.exp(total[:, :, None] - total[:, None, :]).tril()
            start = torch.exp(total)[:, :, None]
            system = (rates * (keys @ keys.mT) * between).tril(-1)
            known = rates * (values - start * (keys @ before))
            delta = torch.linalg.solve_triangular(system, known, upper=False, unitriangular=True)
            out = start * (queries @ before) + ((queries @ keys.mT) * between) @ delta
            before = start[:, -1:] * before + (keys * between[:, -1, :, None]).mT @ delta
            y[take] = scale * out.numpy().transpose(1, 0, 2)
        if end > first:
            kept[seq] = before.numpy()
    return {"y": y, "state": kept}


_HEADS = "n_k_heads * n_groups"


def _input(name: str, axes: tuple[str, ...], doc: str, dtype: str = "f32") -> Operand:
    return Operand(name=name, dtype=dtype, axes=axes, doc=doc)


_RECURRENT = Operation(
    name="gated_delta",
    doc="Runs the gated delta rule over each sequence and carries its state on.\n"
    "S = exp(gate[t]) * S;  delta = beta[t] * (v[t] - k[t]^T S);  S = S + k[t] delta^T\n"
    "y[t] = scale * q[t]^T S\n"
    "a head; value head h takes query and key head h / n_groups, or h mod n_k_heads if tiled.\n"
    "S starts from state, or from zeros where has_state is 0. For |k| <= 1 and beta in\n"
    "[0, 1] errors do not grow with the number of tokens.",
    axes=(
        Axis(
            name="n_tokens",
            doc="tokens of all sequences, packed",
            edges=(1, 2, 4, 15, 16, 17, 63, 64, 65, 128, 129, 193),
            long=(512, 513, 600),
        ),
        Axis(name="n_seqs", doc="sequences", least=1, edges=(1, 2, 3, 5, 17), long=MANY[:1]),
        Axis(name="n_k_heads", doc="query and key heads", edges=(1, 2, 3)),
        Axis(name="n_groups", doc="value heads a key head", edges=(1, 2, 3)),
        Axis(
            name="k_dim",
            doc="width of a key",
            edges=(1, 8, 16, 32, 64, 128),
            long=(128, 256),
        ),
        Axis(
            name="v_dim",
            doc="width of a value",
            edges=(1, 8, 16, 32, 64, 128),
            long=(128, 256),
            neutral={"v": 0.0, "state": 0.0},
        ),
        Axis(
            name="tiled",
            doc="1 if value heads n_k_heads apart share a key head, 0 if neighbours do",
            most="1",
            edges=(0, 1),
        ),
    ),
    inputs=(
        _input("q", ("n_tokens", "n_k_heads", "k_dim"), "queries, normalised"),
        _input("k", ("n_tokens", "n_k_heads", "k_dim"), "keys, normalised"),
        _input("v", ("n_tokens", _HEADS, "v_dim"), "values"),
        _input("gate", ("n_tokens", _HEADS), "logarithms of the decay, <= 0"),
        _input("beta", ("n_tokens", _HEADS), "how much of a value is written, 0 to 1"),
        _input("seq_start", ("n_seqs + 1",), "first token of each, 0 up to n_tokens", "i32"),
        _input("has_state", ("n_seqs",), "0 where a sequence begins, state unread", "i32"),
    ),
    outputs=(
        Operand(name="y", dtype="f32", axes=("n_tokens", _HEADS, "v_dim"), doc="result"),
        Operand(
            name="state",
            dtype="f32",
            axes=("n_seqs", _HEADS, "k_dim", "v_dim"),
            doc="S of each sequence and head",
            updated=True,
        ),
    ),
    scalars=(
        Scalar(name="scale", doc="of the queries", samples=(0.125, 0.08838834764831845, 1.0)),
    ),
    reference=reference,
    bound=bound,
    exact=exact,
    second=second,
    structure=structure,
    fills={"corners": corners, "slow": slow},
    sequences=Sequences(
        tokens="n_tokens", seqs="n_seqs", starts="seq_start", has_state="has_state"
    ),
)

_CHUNKED = replace(
    _RECURRENT,
    name="gated_delta_chunked",
    doc="Runs the rule of hotfire_gated_delta, chunk_len tokens of a sequence at once.\n"
    "With S before the chunk, G(i) the product of exp(gate) from the chunk's first token through\n"
    "i, and D(j, i) that from j + 1 through i:\n"
    "delta[i] = beta[i] * (v[i] - G(i) k[i]^T S - sum_{j < i} D(j, i) (k[i]^T k[j]) delta[j])\n"
    "y[i] = scale * (G(i) q[i]^T S + sum_{j <= i} D(j, i) (q[i]^T k[j]) delta[j])\n"
    "S = G(last) S + sum_j D(j, last) k[j] delta[j]^T\n"
    "Results depend, within the bound, on chunk_len and on where calls cut a sequence.",
    axes=(
        *_RECURRENT.axes,
        Axis(
            name="chunk_len",
            doc="tokens of a chunk; a sequence's last is shorter",
            least=1,
            most="64",
            edges=(1, 2, 3, 4, 16, 32, 64),
            cut=True,
        ),
    ),
    batch_invariant=False,
)

OPERATIONS = [_RECURRENT, _CHUNKED]
