"""Products of one weight with many columns: the same to the bit as one column at a time."""

from __future__ import annotations

import numpy as np
import pytest

from hotfire.ref.formats import named

ROWS = 7
COLUMN_COUNTS = [*range(1, 18), 31, 32, 33, 64, 65]
DTYPES = {"f32": "f32", "bf16": "f32", "q8_0": "q8_0", "q4_0": "q8_0"}


def stored(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Normal values as bytes, a row a leading index."""
    values = rng.standard_normal(shape).astype(np.float32)
    return named(dtype).encode(values).reshape(int(np.prod(shape[:-1])), -1)


def matvec(call, dtype: str, weight: np.ndarray, x: np.ndarray, n_cols: int) -> np.ndarray:
    """One column's product."""
    y = np.zeros(len(weight), dtype=np.float32)
    assert call(f"matvec_{dtype}", weight, x, y, len(weight), n_cols) == "ok"
    return y


@pytest.mark.parametrize("n_cols", [32, 96, 1024 + 32])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_column_among_others_is_the_column_alone(call, dtype, n_cols):
    """At every count up to 17, and across the panels of 32."""
    rng = np.random.default_rng(n_cols)
    weight = stored(rng, dtype, ROWS, n_cols)
    x = stored(rng, DTYPES[dtype], max(COLUMN_COUNTS), n_cols)
    alone = np.stack([matvec(call, dtype, weight, column, n_cols) for column in x])
    for n_tokens in COLUMN_COUNTS:
        y = np.zeros((n_tokens, ROWS), dtype=np.float32)
        assert call(f"matmul_{dtype}", weight, x, y, n_tokens, ROWS, n_cols) == "ok"
        np.testing.assert_array_equal(y.view(np.uint32), alone[:n_tokens].view(np.uint32))


@pytest.mark.parametrize("n_cols", [33, 1000])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_ragged_columns_too(call, dtype, n_cols):
    """Rows that are no whole number of vectors."""
    rng = np.random.default_rng(n_cols)
    weight, x = stored(rng, dtype, ROWS, n_cols), stored(rng, "f32", 6, n_cols)
    y = np.zeros((6, ROWS), dtype=np.float32)
    assert call(f"matmul_{dtype}", weight, x, y, 6, ROWS, n_cols) == "ok"
    alone = np.stack([matvec(call, dtype, weight, column, n_cols) for column in x])
    np.testing.assert_array_equal(y.view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_expert_is_its_matrix_alone(call, dtype):
    """Whatever the other slots ask for, invalid ids among them."""
    rng = np.random.default_rng(3)
    n_experts, n_tokens, n_cols = 4, 5, 96
    ids = np.array([[0, 3, 3], [2, -1, 1], [4, 0, 2], [1, 1, 1], [-9, 99, 3]], dtype=np.int32)
    weight = stored(rng, dtype, n_experts * ROWS, n_cols)
    x = stored(rng, DTYPES[dtype], n_tokens, n_cols)
    y = np.full((n_tokens, ids.shape[1], ROWS), np.nan, dtype=np.float32)
    sizes = (n_tokens, ids.shape[1], n_experts, ROWS, n_cols)
    assert call(f"matmul_grouped_{dtype}", weight, x, ids, y, *sizes) == "ok"
    for (token, slot), expert in np.ndenumerate(ids):
        want = np.zeros(ROWS, dtype=np.float32)
        if 0 <= expert < n_experts:
            mine = weight[expert * ROWS : (expert + 1) * ROWS]
            want = matvec(call, dtype, mine, x[token], n_cols)
        np.testing.assert_array_equal(y[token, slot], want)


@pytest.mark.parametrize("n_cols", [32, 1024 + 32, 2048 + 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_among_others_is_the_row_alone(call, dtype, n_cols):
    """In groups of 16 and beside them, for few columns and many, and where long rows are cut."""
    rng = np.random.default_rng(n_cols)
    n_rows, n_tokens = 3 * 16 + 35, 11
    weight = stored(rng, dtype, n_rows, n_cols)
    x = stored(rng, DTYPES[dtype], n_tokens, n_cols)
    alone = np.array([[matvec(call, dtype, w[None], c, n_cols)[0] for w in weight] for c in x])
    np.testing.assert_array_equal(matvec(call, dtype, weight, x[0], n_cols), alone[0])
    for n in (2, 7, 8, n_tokens):
        y = np.zeros((n, n_rows), dtype=np.float32)
        assert call(f"matmul_{dtype}", weight, x, y, n, n_rows, n_cols) == "ok"
        np.testing.assert_array_equal(y.view(np.uint32), alone[:n].view(np.uint32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_the_same_in_fast_arithmetic(call, dtype):
    """The fixed order of their sums is the quickest one too."""
    rng = np.random.default_rng(5)
    weight, x = stored(rng, dtype, ROWS, 4096), stored(rng, DTYPES[dtype], 1, 4096)
    default = matvec(call, dtype, weight, x, 4096)
    call.execution.flags = call.lib.HOTFIRE_EXEC_FAST
    np.testing.assert_array_equal(matvec(call, dtype, weight, x, 4096), default)
