"""Designed integers: distinct where a mistake would otherwise hide, and stored without loss."""

import numpy as np
import pytest

from hotfire.ref.designed import blocks, without_zero_products
from hotfire.ref.formats import named

KINDS = {"q4_0": (8, 8), "q8_0 small": (127, 16), "q8_0 whole": (127, 127)}


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_differ_and_so_do_halves_of_a_byte(kind):
    """In every block, and the scales of neighbouring blocks."""
    peak, common = KINDS[kind]
    values = blocks(np.random.default_rng(1), (5, 320), peak, common)
    by_block = values.reshape(5, 10, 32)
    scales = np.abs(by_block).max(axis=2) / peak
    assert (by_block[..., 1:] != by_block[..., :-1]).all()
    assert (by_block[..., :16] != by_block[..., 16:]).all()
    assert (scales[:, 1:] != scales[:, :-1]).all()
    assert set(np.unique(scales)) <= {1.0, 2.0, 4.0}
    fmt = named(kind.split()[0])
    assert np.array_equal(fmt.decode(fmt.encode(values), values.shape), values)


def test_no_product_of_blocks_is_zero():
    """A scale that is off then shows in every block."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(20):
        weight, x = blocks(rng, (64, 1024), 8, 8), blocks(rng, (1024,), 127, 16)
        found += ((weight * x).reshape(64, 32, 32).sum(axis=2) == 0).sum()
        mended = without_zero_products(weight, x)
        assert ((mended * x).reshape(64, 32, 32).sum(axis=2) != 0).all()
        assert (np.sort(mended, axis=1) == np.sort(weight, axis=1)).all()
    assert found > 0
