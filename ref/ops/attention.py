"""Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245) over the rows of a cache, for
prompts and for single tokens, with the keys cut into splits (Dao et al. 2023, Flash-Decoding).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers, named
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    UNIT,
    Axis,
    Operand,
    Operation,
    Scalar,
    Sequences,
    Values,
    exp_drift,
    gamma,
)
from hotfire.ref.ops.matvec import integers
from hotfire.ref.sequences import draw_ranges, draw_starts, spans

LANDMARKS = (
    *(1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025),
    *(2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 14079, 14080, 14081),
)
"""Lengths of a sequence at which engines were seen to drop keys, and powers of two between."""

POOLS = (268, 524, 1036, 2060, 4108, 8204, 14092)
"""Pools in which three of the landmarks are the longest that fit, beside other sequences."""

TILE = 64
"""Keys between two merges of partial results in the smallest tiling that is bounded."""


def _tokens(
    seq_start: Integers, kv_begin: Integers, kv_len: Integers
) -> Iterator[tuple[int, slice]]:
    """Each token with the rows of the pool that it sees: its sequence's, itself the last."""
    for seq, (first, end) in enumerate(spans(seq_start)):
        begin, length = int(kv_begin[seq]), int(kv_len[seq])
        for t in range(first, end):
            yield t, slice(begin, begin + length - (end - 1 - t))


def _grouped(q: Array, n_kv_heads: int) -> Array:
    """[n_tokens, n_heads, d] -> [n_tokens, n_kv_heads, n_groups, d]."""
    n_groups = q.shape[1] // max(1, n_kv_heads)
    return q.reshape(q.shape[0], n_kv_heads, n_groups, q.shape[2])


def reference(
    q: Array,
    k: Array,
    v: Array,
    seq_start: Integers,
    kv_begin: Integers,
    kv_len: Integers,
    scale: float,
) -> Values:
    """y = softmax(scale q k^T) v over the rows that a token sees, in float64."""
    queries = _grouped(q, k.shape[1])
    y = np.zeros_like(queries)
    for t, rows in _tokens(seq_start, kv_begin, kv_len):
        scores = scale * np.einsum("hgd,jhd->hgj", queries[t], k[rows])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        sums = weights.sum(axis=-1, keepdims=True)
        y[t] = np.einsum("hgj,jhd->hgd", weights / sums, v[rows])
    return {"y": y.reshape(q.shape)}


def bound(
    q: Array,
    k: Array,
    v: Array,
    seq_start: Integers,
    kv_begin: Integers,
    kv_len: Integers,
    scale: float,
    n_splits: int,
) -> Values:
    """Softmax's bound, with scores that are themselves rounded, summed over the values.

    A weight is off, relatively, by the error of its score, gamma_d * |scale| sum |q k|, by what
    rounding score - maximum costs, u |score - maximum|, by what a power of two costs, `exp_drift`,
    and by the same averaged over the sum: how the maximum itself is rounded cancels. The running
    maximum only rises, so the differences that merges round add up to that same distance. Each
    merge of a tile or split is eight roundings: two exponentials' four less what they share, two
    products, a sum.
    """
    head_dim = q.shape[2]
    queries = _grouped(q, k.shape[1])
    error = np.zeros_like(queries)
    for t, rows in _tokens(seq_start, kv_begin, kv_len):
        n_keys = rows.stop - rows.start
        scores = scale * np.einsum("hgd,jhd->hgj", queries[t], k[rows])
        sizes = abs(scale) * np.einsum("hgd,jhd->hgj", np.abs(queries[t]), np.abs(k[rows]))
        below = scores.max(axis=-1, keepdims=True, initial=-np.inf) - scores
        weights = np.exp(-below)
        sums = weights.sum(axis=-1, keepdims=True)
        share = weights / sums
        drift = gamma(head_dim + 3) * sizes + UNIT * below + exp_drift(below)
        drift = drift + head_dim * SMALLEST_NORMAL
        drift = drift + (share * drift).sum(axis=-1, keepdims=True)
        merges = -(-n_keys // TILE) + 2 * min(n_splits, n_keys)
        relative = np.expm1(np.minimum(drift + gamma(TILE + 8 * merges + 16), 60))
        flush = SMALLEST_NORMAL * (1 + n_keys * share)
        error[t] = np.einsum("hgj,jhd->hgd", share * relative + flush, np.abs(v[rows]))
    return {"y": error.reshape(q.shape) + SMALLEST_NORMAL}


def noise(
    q: Array,
    k: Array,
    v: Array,
    seq_start: Integers,
    kv_begin: Integers,
    kv_len: Integers,
    scale: float,
    k_var: Array,
    v_var: Array,
) -> Values:
    """To first order: a value counts by its weight p, and a score that is off by e moves the result
    by p (v - y) e. Tokens share the values' noise; a row that alone decides counts once.
    """
    queries = _grouped(q, k.shape[1])
    variance = np.zeros_like(queries)
    n_scores = 0.0
    for t, rows in _tokens(seq_start, kv_begin, kv_len):
        scores = scale * np.einsum("hgd,jhd->hgj", queries[t], k[rows])
        p = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        p /= p.sum(axis=-1, keepdims=True)
        y = np.einsum("hgj,jhd->hgd", p, v[rows])
        off = p**2 * scale**2 * np.einsum("hgd,jhd->hgj", queries[t] ** 2, k_var[rows])
        variance[t] = np.einsum("hgj,jhd->hgd", p**2, v_var[rows])
        distance = v[rows].transpose(1, 0, 2)[:, None] - y[:, :, None]
        variance[t] += np.einsum("hgj,hgjd->hgd", off, distance**2)
        squares = np.maximum((off**2).sum(axis=-1), SMALLEST_NORMAL**2)
        n_scores += float((off.sum(axis=-1) ** 2 / squares).sum())
    independent = max(1.0, min(n_scores, k.shape[1] * k.shape[2]))
    return {"y": variance.reshape(q.shape), "y_independent": np.array(independent)}


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Any division of the tokens; each sequence's rows anywhere in the pool, with history."""
    seq_start = draw_starts(rng, sizes["n_tokens"], sizes["n_seqs"])
    kv_begin, kv_len = draw_ranges(rng, sizes["n_kv"], np.diff(seq_start), LANDMARKS)
    return {"seq_start": seq_start, "kv_begin": kv_begin, "kv_len": kv_len}


def _needles(rng: np.random.Generator, n_seen: int, n_splits: int) -> Integers:
    """Rows of n_seen, a power of two of them: the last of every split, however they are cut, and as
    many more; or one or two, anywhere or next to where tiles and splits meet.
    """
    tiles = -(-n_seen // TILE)
    parts = np.arange(n_splits + 1)
    cuts = np.concatenate([parts * n_seen // n_splits, parts * tiles // n_splits * TILE])
    if rng.random() < 0.5:
        last = np.unique(np.clip(cuts, 1, n_seen) - 1)
        more = np.setdiff1d(rng.choice(n_seen, min(n_seen, 2 * len(last)), replace=False), last)
        both = np.concatenate([rng.permutation(last), more])
        return both[: 1 << (len(both).bit_length() - 1)]
    near = np.concatenate([cuts, np.arange(tiles) * TILE])
    near = np.clip(np.concatenate([near - 1, near]), 0, n_seen - 1)
    count = int(rng.integers(1, 3)) if n_seen > 1 else 1
    found = np.where(
        rng.random(count) < 0.7, rng.choice(near, count), rng.integers(0, n_seen, count)
    )
    return np.unique(found)


def exact_for(dtype: str) -> Any:
    """Needles: each token asks for one entry of the keys, which is 0 in some rows and so far below
    in all others that they weigh nothing. The result is the mean of those rows of v, whose number
    is a power of two.
    """

    def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
        drawn = structure(rng, sizes)
        n_kv_heads, head_dim = sizes["n_kv_heads"], sizes["head_dim"]
        heads = (n_kv_heads, sizes["n_groups"])
        q = np.zeros((sizes["n_tokens"], *heads, head_dim))
        k = np.full((sizes["n_kv"], n_kv_heads, head_dim), -127.0)
        v = integers(rng, k.shape, dtype)
        asked = {}
        for seq, (first, end) in enumerate(spans(drawn["seq_start"])):
            begin, length = drawn["kv_begin"][seq], drawn["kv_len"][seq]
            for t in range(first, end if head_dim else first):
                entry = (t - first) % head_dim
                q[t, ..., entry] = 64
                for head in range(n_kv_heads):
                    if (seq, entry, head) not in asked:
                        n_seen = int(length - (end - 1 - t))
                        needles = _needles(rng, n_seen, sizes["n_splits"])
                        asked[seq, entry, head] = needles
                        k[begin + needles, head, entry] = 0
        shape = (sizes["n_tokens"], heads[0] * heads[1], head_dim)
        return {**drawn, "q": q.reshape(shape), "k": k, "v": v, "scale": 0.125}

    return exact


def second(
    q: Array,
    k: Array,
    v: Array,
    seq_start: Integers,
    kv_begin: Integers,
    kv_len: Integers,
    scale: float,
) -> Values:
    """`torch.nn.functional.scaled_dot_product_attention` in float64, a sequence at a time."""
    import torch

    y = np.zeros_like(q)
    n_groups = q.shape[1] // max(1, k.shape[1])
    for seq, (first, end) in enumerate(spans(seq_start)):
        if first == end:
            continue
        begin, length, n_new = int(kv_begin[seq]), int(kv_len[seq]), end - first
        rows = slice(begin, begin + length)
        mask = torch.ones(n_new, length, dtype=torch.bool).tril(length - n_new)
        keys, values = (
            torch.from_numpy(each[rows]).repeat_interleave(n_groups, dim=1).transpose(0, 1)
            for each in (k, v)
        )
        queries = torch.from_numpy(q[first:end]).transpose(0, 1)
        out = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, scale=scale
        )
        y[first:end] = out.transpose(0, 1).numpy()
    return {"y": y}


def _axes(dtype: str) -> tuple[Axis, ...]:
    return (
        Axis(
            name="n_tokens",
            doc="tokens of all sequences, packed",
            most="n_kv",
            edges=(1, 2, 5, 17, 65, 128),
            long=MANY[1:3],
        ),
        Axis(name="n_seqs", doc="sequences", least=1, edges=(1, 2, 3, 5, 17), long=MANY[:2]),
        Axis(
            name="n_kv",
            doc="rows of the pool that holds all sequences' keys and values",
            edges=(1, 31, 32, 63, 64, 65, 128, 255, 256, 257),
            long=POOLS,
        ),
        Axis(name="n_kv_heads", doc="heads of keys and values", edges=(1, 2, 3)),
        Axis(name="n_groups", doc="query heads a head of keys", edges=(1, 2, 4, 6, 8)),
        Axis(
            name="head_dim",
            doc="width of a head",
            multiple_of=named(dtype).block_len,
            edges=(8, 16, 32, 64, 80, 96, 128, 256),
        ),
        Axis(
            name="n_splits",
            doc="parts that the keys are cut into, at most 65536; results do not depend on it",
            least=1,
            edges=(1, 2, 3, 7, 8, 16, 32, 64, 128),
            cut=True,
        ),
    )


def _operation(dtype: str) -> Operation:
    cache = ("n_kv", "n_kv_heads", "head_dim")
    heads = ("n_tokens", "n_kv_heads * n_groups", "head_dim")
    return Operation(
        name=f"attention_{dtype}",
        doc=f"Mixes the {dtype} values that a token sees by softmax of its query with the keys.\n"
        "y[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h / n_groups]) * v[j, h / n_groups]\n"
        "Token i of the n that sequence s has in this call sees rows kv_begin[s] up to\n"
        "kv_begin[s] + kv_len[s] - n + i, itself the last; kv_append has written them.",
        axes=_axes(dtype),
        inputs=(
            Operand(name="q", dtype="f32", axes=heads, doc="queries", limit=16.0),
            Operand(name="k", dtype=dtype, axes=cache, doc="keys", limit=16.0),
            Operand(name="v", dtype=dtype, axes=cache, doc="values", limit=1e4),
            Operand(
                name="seq_start",
                dtype="i32",
                axes=("n_seqs + 1",),
                doc="first token of each sequence, from 0 up to n_tokens",
            ),
            Operand(name="kv_begin", dtype="i32", axes=("n_seqs",), doc="first row of each"),
            Operand(
                name="kv_len",
                dtype="i32",
                axes=("n_seqs",),
                doc="rows of each sequence, those of this call's tokens included",
            ),
        ),
        outputs=(Operand(name="y", dtype="f32", axes=heads, doc="result"),),
        scalars=(
            Scalar(name="scale", doc="of the scores", samples=(0.125, 0.08838834764831845, 0.0625)),
        ),
        reference=reference,
        bound=bound,
        fast_bound=bound,
        exact=exact_for(dtype),
        noise=noise if dtype == "q8_0" else None,
        second=second,
        structure=structure,
        sequences=Sequences(
            tokens="n_tokens",
            seqs="n_seqs",
            starts="seq_start",
            ranges={"n_kv": ("kv_begin", "kv_len")},
        ),
        workspace="4 * n_splits * head_dim + 8 * n_splits",
    )


OPERATIONS = [_operation(dtype) for dtype in ("f32", "bf16", "q8_0")]
