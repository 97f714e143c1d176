"""The storage formats against ggml's own encoders and decoders."""

from pathlib import Path

import cffi
import libggml
import numpy as np
import pytest

from hotfire.errors import ShapeError
from hotfire.ref.formats import FORMATS, named

QUANTISED = [name for name, fmt in FORMATS.items() if fmt.block_len == 32]


@pytest.fixture(scope="module")
def ggml():
    """Calls of ggml's reference quantisers: (name, array, n_bytes of the result) -> bytes."""
    ffi = cffi.FFI()
    folder = Path(libggml.__path__[0]) / "lib64"
    ffi.cdef(
        "\n".join(
            f"void quantize_row_{name}_ref(const void *, void *, int64_t);"
            f"void dequantize_row_{name}(const void *, void *, int64_t);"
            for name in QUANTISED
        )
    )
    # Unloaded and loaded again, its initialiser aborts the process.
    library = ffi.dlopen(str(folder / "libggml-base.so"), ffi.RTLD_NOW | ffi.RTLD_NODELETE)

    def call(symbol, data, count, n_bytes):
        out = np.empty(n_bytes, dtype=np.uint8)
        source = ffi.cast("void *", data.ctypes.data)
        getattr(library, symbol)(source, ffi.cast("void *", out.ctypes.data), count)
        return out

    return call


def rows(kind, rng):
    """Blocks that meet the encoders' corners."""
    normal = rng.standard_normal((64, 96))
    return {
        "normal": normal,
        "ties": np.concatenate([np.full((64, 1), 127.0), rng.integers(-254, 255, (64, 95)) / 2], 1),
        "equal_peaks": rng.choice([-3.0, 3.0, 0.5], (64, 96)),
        "zeros": np.zeros((64, 96)),
        "tiny": normal * 1e-30,
        "subnormal_scale": normal * 1e-6,
        "huge": normal * 1e5,
    }[kind].astype(np.float32)


KINDS = ("normal", "ties", "equal_peaks", "zeros", "tiny", "subnormal_scale", "huge")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QUANTISED)
def test_encode_is_ggmls_reference_bit_for_bit(ggml, name, kind):
    """Scales, codes and their order."""
    values = rows(kind, np.random.default_rng(7))
    fmt = named(name)
    want = ggml(f"quantize_row_{name}_ref", values, values.size, fmt.n_bytes(values.shape))
    assert np.array_equal(fmt.encode(values), want)


@pytest.mark.parametrize("name", QUANTISED)
def test_decode_is_ggmls_bit_for_bit(ggml, name):
    """Any code under any finite scale."""
    fmt = named(name)
    rng = np.random.default_rng(11)
    stored = rng.integers(0, 256, (500, fmt.block_size), dtype=np.uint8)
    scales = (rng.standard_normal(500) * 10.0 ** rng.integers(-7, 4, 500)).astype("<f2")
    stored[:, :2] = scales.view(np.uint8).reshape(-1, 2)
    want = ggml(f"dequantize_row_{name}", stored, 500 * 32, 500 * 32 * 4).view(np.float32)
    assert np.array_equal(fmt.decode(stored.reshape(-1), (500 * 32,)), want.astype(np.float64))


@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize("kind", KINDS)
def test_the_encoding_error_covers_the_reference_encoder(name, kind):
    """The bound for any nearest encoder holds for this one, and is no more than a few steps."""
    values = rows(kind, np.random.default_rng(3))
    fmt = named(name)
    error = np.abs(fmt.decode(fmt.encode(values), values.shape) - values)
    bound = fmt.encoding_error(values.astype(np.float64))
    assert (error <= bound).all()
    peak = np.abs(values).reshape(-1, 32).max(axis=1).repeat(32).reshape(values.shape)
    assert (bound <= peak * 0.14 + 127 * 2.0**-25).all()


def test_a_block_whose_reciprocal_overflows_is_stored_as_zero():
    """Below 2^-128 a step has no f32 reciprocal; the codes then say zero."""
    values = np.full((1, 32), 1e-40, dtype=np.float32)
    for name in QUANTISED:
        assert (named(name).decode(named(name).encode(values), (1, 32)) == 0).all()


@pytest.mark.parametrize("name", FORMATS)
def test_poison_reads_as_nan(name):
    """A result that read poison cannot look right; a whole number is the least there is."""
    fmt = named(name)
    shape = (2, 3 * fmt.block_len)
    values = fmt.decode(fmt.poison(shape), shape)
    assert (np.isnan(values) | (values == -(2**31))).all()


def test_whole_numbers_come_back_whole():
    """Two's complement, little-endian, int64 when read."""
    fmt = named("i32")
    stored = fmt.encode(np.array([[1, -2, 2**31 - 1]]))
    assert stored.tobytes().hex() == "01000000feffffffffffff7f"
    read = fmt.decode(stored, (1, 3))
    assert read.dtype == np.int64
    assert read.tolist() == [[1, -2, 2**31 - 1]]


def test_a_ragged_row_is_refused():
    """33 values are no whole number of blocks."""
    with pytest.raises(ShapeError, match="multiple of 32"):
        named("q8_0").n_bytes((2, 33))
