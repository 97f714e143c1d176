"""Matrix times vector with a matrix chosen for each vector: the experts of a mixture (Gale et al.
2022, arXiv 2211.15841, sec. 4). Its bound is that of matvec.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers, named
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    WIDTHS,
    Axis,
    Operand,
    Operation,
    Reference,
    Values,
    size_of_sums,
    walk,
)
from hotfire.ref.ops.matvec import chain, designed


def _products(weight: Array, x: Array, expert_ids: Integers) -> Array:
    """[n_tokens, n_top_k, n_rows]: a slot's matrix times its token, zeros for an invalid id."""
    y = np.zeros((*expert_ids.shape, weight.shape[1]))
    for expert, matrix in enumerate(weight):
        tokens, slots = np.nonzero(expert_ids == expert)
        y[tokens, slots] = x[tokens] @ matrix.T
    return y


def reference(weight: Array, x: Array, expert_ids: Integers) -> Values:
    """y[t, u] = weight[expert_ids[t, u]] @ x[t], in float64."""
    return {"y": _products(weight, x, expert_ids)}


def bound_for(block_len: int) -> Reference:
    """That of matvec, a slot; 0 where the id is invalid."""

    def bound(weight: Array, x: Array, expert_ids: Integers) -> Values:
        n_cols = x.shape[-1]
        valid = (expert_ids >= 0) & (expert_ids < len(weight))
        sums = size_of_sums(
            _products(weight, x, expert_ids), _products(weight**2, x**2, expert_ids)
        )
        flush = n_cols * SMALLEST_NORMAL * valid[..., None]
        return {"y": walk(chain(n_cols, block_len)) * sums + flush}

    return bound


def noise(weight: Array, x: Array, expert_ids: Integers, weight_var: Array, x_var: Array) -> Values:
    """That of matvec, a slot; a slot that comes twice is no second sample."""
    y = _products(weight**2 + weight_var, x_var, expert_ids)
    y += _products(weight_var, x**2, expert_ids)
    distinct = sum(len(set(ids)) for ids in expert_ids.tolist())
    return {"y": y, "y_independent": np.array(distinct * weight.shape[1])}


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Ids of all experts, some of them out of range, some repeated within a token."""
    shape, n_experts = (sizes["n_tokens"], sizes["n_top_k"]), sizes["n_experts"]
    ids = rng.integers(0, max(1, n_experts), shape)
    outside = rng.choice([-1, n_experts, n_experts + 3, -(2**31), 2**31 - 1], shape)
    ids = np.where(rng.random(shape) < 0.85, ids, outside)
    if shape[1] > 1:
        again = rng.random(shape[0]) < 0.3
        ids[again, -1] = ids[again, 0]
    return {"expert_ids": ids}


def exact_for(weight_dtype: str, x_dtype: str) -> Any:
    """Integers small enough that every partial sum is below 2^24, so that no order rounds."""

    def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
        n_cols = sizes["n_cols"]
        matrices = (sizes["n_experts"], sizes["n_rows"], n_cols)
        rows = (matrices[0] * matrices[1], n_cols)
        weight, x = designed(rng, weight_dtype, rows, x_dtype, (sizes["n_tokens"], n_cols))
        return {**structure(rng, sizes), "weight": weight.reshape(matrices), "x": x}

    return exact


def second(weight: Array, x: Array, expert_ids: Integers) -> Values:
    """All experts for all tokens by `torch.einsum` in float64, then one of them a slot."""
    import torch

    every = torch.einsum("erk,tk->ter", torch.from_numpy(weight), torch.from_numpy(x)).numpy()
    valid = (expert_ids >= 0) & (expert_ids < len(weight))
    chosen = np.where(valid, expert_ids, 0)
    return {"y": np.take_along_axis(every, chosen[..., None], axis=1) * valid[..., None]}


def _operation(weight_dtype: str, x_dtype: str) -> Operation:
    block_len = max(named(weight_dtype).block_len, named(x_dtype).block_len)
    return Operation(
        name=f"matmul_grouped_{weight_dtype}",
        doc=f"Multiplies each {x_dtype} vector by the {weight_dtype} matrices of its experts.\n"
        "y[t, u, r] = sum_k weight[expert_ids[t, u], r, k] * x[t, k]\n"
        "An id that is not in 0 .. n_experts - 1 gives zeros; one that comes twice counts twice.\n"
        f"y[t, u] is, to the bit, what hotfire_matvec_{weight_dtype} makes of x[t], by default.",
        axes=(
            Axis(name="n_tokens", doc="vectors", edges=(1, 2, 5, 8, 17, 32), long=MANY, rows=True),
            Axis(name="n_top_k", doc="experts a vector", edges=(1, 2, 4, 6, 8, 10)),
            Axis(name="n_experts", doc="experts", edges=(1, 2, 8, 64), long=MANY[1:]),
            Axis(name="n_rows", doc="rows of a matrix", edges=(1, 2, 5, 16, 33), long=MANY),
            Axis(
                name="n_cols",
                doc="columns of a matrix",
                multiple_of=block_len,
                edges=(1, 8, 16, 32, 64, 256) if block_len == 1 else (32, 64, 128, 256),
                long=WIDTHS,
                neutral={"weight": 0.0, "x": 0.0},
            ),
        ),
        inputs=(
            Operand(
                name="weight",
                dtype=weight_dtype,
                axes=("n_experts", "n_rows", "n_cols"),
                doc="the matrices",
            ),
            Operand(name="x", dtype=x_dtype, axes=("n_tokens", "n_cols"), doc="the vectors"),
            Operand(
                name="expert_ids", dtype="i32", axes=("n_tokens", "n_top_k"), doc="whose matrix"
            ),
        ),
        outputs=(
            Operand(
                name="y", dtype="f32", axes=("n_tokens", "n_top_k", "n_rows"), doc="the products"
            ),
        ),
        reference=reference,
        bound=bound_for(block_len),
        exact=exact_for(weight_dtype, x_dtype),
        noise=noise if block_len > 1 else None,
        second=second,
        structure=structure,
    )


OPERATIONS = [
    _operation("f32", "f32"),
    _operation("bf16", "f32"),
    _operation("q8_0", "q8_0"),
    _operation("q4_0", "q8_0"),
]
