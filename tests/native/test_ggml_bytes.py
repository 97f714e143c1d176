"""Blocks are ggml's, bit for bit: encoded by its reference encoder, decoded by its decoder."""

from __future__ import annotations

from pathlib import Path

import cffi
import numpy as np
import pytest

BLOCK_SIZES = {"q8_0": 34, "q4_0": 18}
ROWS, COLS = 7, 96


@pytest.fixture(scope="module")
def ggml():
    """libggml-base by cffi: the two reference encoders and decoders."""
    package = pytest.importorskip("libggml")
    ffi = cffi.FFI()
    for name in BLOCK_SIZES:
        ffi.cdef(f"void quantize_row_{name}_ref(const float *x, void *y, int64_t k);")
        ffi.cdef(f"void dequantize_row_{name}(const void *x, float *y, int64_t k);")
    found = next(Path(package.__file__).parent.rglob("libggml-base.so"))
    # Unloaded and loaded again, its initialiser aborts the process.
    return ffi, ffi.dlopen(str(found), ffi.RTLD_NOW | ffi.RTLD_NODELETE)


def _random(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((ROWS, COLS)) * 10.0 ** rng.uniform(-6, 4, (ROWS, 1))


def _ties(rng: np.random.Generator) -> np.ndarray:
    """Half steps of both formats: peaks of 127 and -8 a block."""
    x = rng.integers(-254, 255, (ROWS, COLS)) / 2.0
    x[:, ::32] = 127
    x[ROWS // 2 :] = rng.integers(-15, 16, x[ROWS // 2 :].shape) / 2.0
    x[ROWS // 2 :, ::32] = -8
    return x


def _equal_peaks(rng: np.random.Generator) -> np.ndarray:
    """Every value has the same magnitude, so that only the first one's sign decides."""
    return rng.choice([-3.0, 3.0], (ROWS, COLS))


def _near_ties(rng: np.random.Generator) -> np.ndarray:
    """One float above and below the half steps."""
    toward = rng.choice([-np.inf, np.inf], (ROWS, COLS)).astype(np.float32)
    return np.nextafter(_ties(rng).astype(np.float32), toward)


def _small(rng: np.random.Generator) -> np.ndarray:
    """Scales that are subnormal or zero as f16, down to where 1 / d nearly overflows."""
    return rng.standard_normal((ROWS, COLS)) * 10.0 ** rng.uniform(-34, -4, (ROWS, 1))


def _huge(rng: np.random.Generator) -> np.ndarray:
    """Scales about and beyond the largest f16."""
    return rng.uniform(-1, 1, (ROWS, COLS)) * 10.0 ** rng.uniform(5, 38, (ROWS, 1))


def _zeros(rng: np.random.Generator) -> np.ndarray:
    return rng.choice([0.0, -0.0], (ROWS, COLS))


FILLS = [_random, _ties, _equal_peaks, _near_ties, _small, _huge, _zeros]


@pytest.mark.parametrize("fill", FILLS, ids=lambda fill: fill.__name__.strip("_"))
@pytest.mark.parametrize("dtype", BLOCK_SIZES)
def test_encoding_is_that_of_ggml(call, ggml, dtype, fill):
    """Every bit of every block."""
    ffi, functions = ggml
    rng = np.random.default_rng(20)
    for _ in range(50):
        x = fill(rng).astype(np.float32)
        got = np.zeros(x.size // 32 * BLOCK_SIZES[dtype], dtype=np.uint8)
        want = np.zeros_like(got)
        encode = getattr(functions, f"quantize_row_{dtype}_ref")
        encode(ffi.from_buffer("float[]", x), ffi.from_buffer(want), x.size)
        assert call(f"quantize_{dtype}", x, got, ROWS, COLS) == "ok"
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", BLOCK_SIZES)
def test_decoding_is_that_of_ggml(call, ggml, dtype):
    """All codes at random scales, among them subnormal ones and infinity."""
    ffi, functions = ggml
    x = np.random.default_rng(21).integers(0, 256, (4096, BLOCK_SIZES[dtype]), dtype=np.uint8)
    is_nan = np.isnan(x[:, :2].copy().view("<f2")[:, 0])
    x[is_nan, 1] &= 0xFB
    got, want = np.zeros((2, 4096 * 32), dtype=np.float32)
    decode = getattr(functions, f"dequantize_row_{dtype}")
    decode(ffi.from_buffer(x), ffi.from_buffer("float[]", want), want.size)
    assert call(f"dequantize_{dtype}", x, got, 64, 2048) == "ok"
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", BLOCK_SIZES)
@pytest.mark.parametrize("peak", [2e-38, 1e-40, 2.0**-149])
def test_block_whose_inverse_scale_overflows_is_zero(call, dtype, peak):
    """The scale's bits stay; ggml's own codes are undefined there."""
    x = np.full((1, 32), peak, dtype=np.float32)
    y = np.full(BLOCK_SIZES[dtype], 0xAA, dtype=np.uint8)
    assert call(f"quantize_{dtype}", x, y, 1, 32) == "ok"
    assert (y[2:] == (0 if dtype == "q8_0" else 0x88)).all()
    assert not y[:2].view("<f2")[0]


def test_the_code_minus_128_counts(call):
    """No encoder writes it, and sign tricks lose it; the products of a block must not saturate."""
    block = np.full(34, 0x80, dtype=np.uint8)
    block[:2] = np.array([1], dtype="<f2").view(np.uint8)
    y = np.zeros(1, dtype=np.float32)
    assert call("matvec_q8_0", block, block.copy(), y, 1, 32) == "ok"
    assert y[0] == 32 * 128 * 128
