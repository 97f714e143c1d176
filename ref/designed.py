"""Designed integers: inputs on which a wrong index, scale or order cannot hide.

Within a block neighbouring values differ, and so do values 16 apart, which share a byte in q4_0.
Neighbouring blocks have different scales, powers of two, and no product of two blocks is zero. So
whatever a kernel mixes up, the sum changes, and as every sum is exact, by more than nothing.
"""

from __future__ import annotations

import numpy as np

from hotfire.ref.formats import Array

BLOCK_LEN = 32
HALF = BLOCK_LEN // 2
EXPONENTS = 3


def blocks(rng: np.random.Generator, shape: tuple[int, ...], peak: int, common: int) -> Array:
    """Integers in blocks of 32, each stored without loss, as one of its values is exactly -peak.

    Args:
        rng: to draw from.
        shape: of the result; the last axis holds whole blocks.
        peak: the magnitude that makes a scale of one: 127 for q8_0, 8 for q4_0.
        common: the others are smaller than this in magnitude; at least 16, unless peak is 8.
    """
    n_blocks = int(np.prod(shape, dtype=np.int64)) // BLOCK_LEN
    values = _nibbles(rng, n_blocks) if peak == HALF // 2 else _bytes(rng, n_blocks, peak, common)
    by_row = values.reshape(-1, shape[-1] // BLOCK_LEN, BLOCK_LEN)
    steps = rng.integers(1, EXPONENTS, by_row.shape[:2])
    exponents = (np.cumsum(steps, axis=1) + rng.integers(0, EXPONENTS)) % EXPONENTS
    return (by_row * 2.0 ** exponents[..., None]).reshape(shape)


def without_zero_products(weight: Array, x: Array) -> Array:
    """The weight, two neighbours swapped in each block whose product with x is zero.

    Args:
        weight: [n_rows, n_cols], as `blocks` gives.
        x: [n_cols], as `blocks` gives.
    """
    products = (weight * x).reshape(-1, BLOCK_LEN).sum(axis=1)
    out = weight.copy()
    by_block = out.reshape(-1, BLOCK_LEN)
    zero = np.flatnonzero(products == 0)
    by_block[zero[:, None], [0, 1]] = by_block[zero[:, None], [1, 0]]
    return out


def _nibbles(rng: np.random.Generator, n_blocks: int) -> Array:
    """All of -8..7 in random order, then the same order turned by 2 to 13 places."""
    first = rng.permuted(np.tile(np.arange(-8.0, 8.0), (n_blocks, 1)), axis=1)
    turn = rng.integers(2, HALF - 2, (n_blocks, 1))
    turned = np.take_along_axis(first, (np.arange(HALF) + turn) % HALF, axis=1)
    return np.concatenate([first, turned], axis=1)


def _bytes(rng: np.random.Generator, n_blocks: int, peak: int, common: int) -> Array:
    """Steps of one size round the ring 1 - common .. common - 1, and the peak somewhere."""
    ring = 2 * common - 1
    strides = np.array([s for s in range(2, ring - 1) if np.gcd(s, ring) == 1 and 16 * s % ring])
    stride = rng.choice(strides, (n_blocks, 1))
    start = rng.integers(0, ring, (n_blocks, 1))
    values = ((start + stride * np.arange(BLOCK_LEN)) % ring - (common - 1)).astype(np.float64)
    values[np.arange(n_blocks), rng.integers(0, BLOCK_LEN, n_blocks)] = -peak
    return values
