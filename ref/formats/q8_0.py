"""q8_0: 32 values as signed bytes times one f16 scale, 34 bytes.

    d = max|x| / 127,   q_i = roundf(x_i / d),   x_i ~ f16(d) * q_i

The division is a multiplication by 1 / d in f32, and `roundf` rounds halves away from zero, as
in ggml's `quantize_row_q8_0_ref` (ggml-quants.c); the codes use d before it is rounded to f16.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotfire.ref.formats._format import Array, Bytes, Format

BLOCK_LEN = 32


def reciprocal(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / scale in f32, and 0 where that is infinite: at a scale of 0, or too small a one."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / scale
    return np.where(np.isinf(inverse), np.float32(0), inverse).astype(np.float32)


def pack(scale: NDArray[np.float32], codes: Bytes) -> Bytes:
    """[n] f32 scales and [n, k] codes -> [n, 2 + k] blocks, the scale as little-endian f16."""
    with np.errstate(over="ignore"):
        half = scale.astype("<f2").reshape(-1, 1)
    return np.concatenate([half.view(np.uint8), codes], axis=1)


def unpack_scale(stored: Bytes) -> Array:
    """[n, 2 + k] blocks -> [n, 1] float64 scales."""
    return np.ascontiguousarray(stored[:, :2]).view("<f2").astype(np.float64)


def _encode(values: NDArray[np.float32]) -> Bytes:
    scale = np.abs(values).max(axis=1) / np.float32(127)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (values * reciprocal(scale)[:, None]).astype(np.float64)
        codes = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int8)
    return pack(scale, codes.view(np.uint8))


def _decode(stored: Bytes) -> Array:
    return unpack_scale(stored) * stored[:, 2:].view(np.int8).astype(np.float64)


def scale_error(scale: Array) -> Array:
    """What rounding a scale to f16 costs: 2^-11 of it, and half the smallest subnormal at least."""
    return np.maximum(scale * 2.0**-11, 2.0**-25)


def blockwise_max(values: Array) -> Array:
    """[..., n] -> the greatest magnitude of each element's block of 32, in the same shape."""
    blocks = np.abs(values).reshape(-1, BLOCK_LEN).max(axis=1, initial=0)
    return np.repeat(blocks, BLOCK_LEN).reshape(values.shape)


def _encoding_error(values: Array) -> Array:
    """Half a step, a step's 2^-16 for f32 arithmetic at a tie, and 127 times the scale's error."""
    step = blockwise_max(values) / 127
    return step * (0.5 + 2.0**-16) + 127 * scale_error(step)


FORMAT = Format(
    name="q8_0",
    block_len=BLOCK_LEN,
    block_size=2 + BLOCK_LEN,
    alignment=2,
    c_type="hotfire_block_q8_0",
    c_declaration="""typedef struct hotfire_block_q8_0 {
    uint16_t d;    /* the scale, IEEE binary16 */
    int8_t qs[32]; /* value i is d * qs[i] */
} hotfire_block_q8_0;""",
    encode_blocks=_encode,
    decode_blocks=_decode,
    poison_block=np.array([0x00, 0x7E] + [0x7F] * BLOCK_LEN, dtype=np.uint8),
    lowest_code=-127,
    is_lossy=True,
    encoding_error=_encoding_error,
)
