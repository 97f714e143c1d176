"""Writing tokens into rows of a cache that several sequences share, by a row for each token (as in
Kwon et al. 2023, arXiv 2309.06180, sec. 4.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers, named
from hotfire.ref.operation import MANY, Axis, Draw, Operand, Operation, Reference, Values
from hotfire.ref.ops.matvec import integers


def _targets(slot: Integers, n_kv: int) -> list[tuple[int, int]]:
    """(row, token) in the order of writing; tokens without a row are left out."""
    return [(int(row), token) for token, row in enumerate(slot) if 0 <= row < n_kv]


def reference(x: Array, slot: Integers, cache: Array) -> Values:
    """cache[slot[t]] = x[t], one token after another."""
    written = cache.copy()
    for row, token in _targets(slot, len(cache)):
        written[row] = x[token]
    return {"cache": written}


def bound_for(dtype: str) -> Reference:
    """What the format's nearest codes leave, in the rows that are written; 0 elsewhere."""

    def bound(x: Array, slot: Integers, cache: Array) -> Values:
        fmt = named(dtype)
        error = np.zeros_like(cache)
        if fmt.is_lossy:
            for row, token in _targets(slot, len(cache)):
                error[row] = fmt.encoding_error(x[token])
        return {"cache": error}

    return bound


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Rows in any order, some named twice, some tokens without a row on either side."""
    n_tokens, n_kv = sizes["n_tokens"], sizes["n_kv"]
    slot = rng.integers(0, max(1, n_kv), n_tokens)
    outside = rng.choice([-1, -(2**31), n_kv, n_kv + 7, 2**31 - 1], n_tokens)
    return {"slot": np.where(rng.random(n_tokens) < 0.8, slot, outside)}


def exact_for(dtype: str) -> Any:
    """Integers that the format stores without loss."""

    def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
        n_cols = sizes["n_cols"]
        return {
            **structure(rng, sizes),
            "x": integers(rng, (sizes["n_tokens"], n_cols), dtype),
            "cache": integers(rng, (sizes["n_kv"], n_cols), dtype),
        }

    return exact


def halves(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Nine significant bits, the last of them set: halfway between two bf16."""
    shape = (sizes["n_tokens"], sizes["n_cols"])
    odd = 2 * rng.integers(128, 256, shape) + 1
    return {**structure(rng, sizes), "x": odd * rng.choice([-1.0, 0.25], shape)}


def subnormal(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Magnitudes below the smallest normal: a copy is no arithmetic and flushes nothing."""
    shape = (sizes["n_tokens"], sizes["n_cols"])
    return {**structure(rng, sizes), "x": 2.0**-149 * rng.integers(-(2**23), 2**23, shape)}


FILLS: dict[str, dict[str, Draw]] = {"f32": {"subnormal": subnormal}, "bf16": {"halves": halves}}


def second(x: Array, slot: Integers, cache: Array) -> Values:
    """Each row by itself takes the last token that names it."""
    written = cache.copy()
    for row in range(len(cache)):
        named_by = np.flatnonzero(slot == row)
        if named_by.size:
            written[row] = x[named_by[-1]]
    return {"cache": written}


def _operation(dtype: str) -> Operation:
    return Operation(
        name=f"kv_append_{dtype}",
        doc=f"Stores tokens as {dtype} in rows of a cache.\n"
        "cache[slot[t]] = x[t]\n"
        "A token whose slot is not in 0 .. n_kv - 1 is padding and goes nowhere; of two with the\n"
        "same slot the later stays. Other rows keep their bytes.",
        axes=(
            Axis(name="n_tokens", doc="tokens", edges=(1, 2, 5, 17), long=MANY),
            Axis(
                name="n_kv",
                doc="rows of the cache",
                edges=(1, 2, 17, 64, 256),
                long=(1025, 4097, 14081),
            ),
            Axis(
                name="n_cols",
                doc="width of a row",
                multiple_of=named(dtype).block_len,
                edges=(1, 8, 16, 32, 64, 256),
                long=(512, 1024, 2048),
            ),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_tokens", "n_cols"), doc="values", limit=5e5),
            Operand(name="slot", dtype="i32", axes=("n_tokens",), doc="row of each token"),
        ),
        outputs=(
            Operand(
                name="cache", dtype=dtype, axes=("n_kv", "n_cols"), doc="the rows", updated=True
            ),
        ),
        reference=reference,
        bound=bound_for(dtype),
        exact=exact_for(dtype),
        second=second,
        structure=structure,
        fills=FILLS.get(dtype, {}),
    )


OPERATIONS = [_operation(dtype) for dtype in ("f32", "bf16", "q8_0")]
