"""q4_0: 32 values as four-bit codes times one f16 scale, 18 bytes.

    m = the x of greatest magnitude, with its sign,   d = m / -8
    q_i = min(15, trunc(x_i / d + 8.5)),              x_i ~ f16(d) * (q_i - 8)

The division is a multiplication by 1 / d in f32, as in ggml's `quantize_row_q4_0_ref`
(ggml-quants.c). Byte j holds value j in its low half and value j + 16 in its high half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotfire.ref.formats._format import Array, Bytes, Format
from hotfire.ref.formats.q8_0 import (
    blockwise_max,
    pack,
    reciprocal,
    scale_error,
    unpack_scale,
)

BLOCK_LEN = 32
HALF = BLOCK_LEN // 2


def _encode(values: NDArray[np.float32]) -> Bytes:
    peak = np.abs(values).argmax(axis=1)
    # The scale of a block of zeros is -0 in ggml, whatever their signs: adding 0 drops them.
    scale = (values[np.arange(len(values)), peak] + np.float32(0)) / np.float32(-8)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * reciprocal(scale)[:, None] + np.float32(8.5)
        codes = np.minimum(scaled.astype(np.int8), 15).astype(np.uint8)
    packed: Bytes = codes[:, :HALF] | (codes[:, HALF:] << np.uint8(4))
    return pack(scale, packed)


def _decode(stored: Bytes) -> Array:
    packed = stored[:, 2:]
    codes = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float64)
    return unpack_scale(stored) * (codes - 8)


def _encoding_error(values: Array) -> Array:
    """A whole step, which the value opposite the peak loses at code 15, and 8 times the scale's
    error.
    """
    step = blockwise_max(values) / 8
    return step * (1 + 2.0**-16) + 8 * scale_error(step)


FORMAT = Format(
    name="q4_0",
    block_len=BLOCK_LEN,
    block_size=2 + HALF,
    alignment=2,
    c_type="hotfire_block_q4_0",
    c_declaration="""typedef struct hotfire_block_q4_0 {
    uint16_t d;     /* the scale, IEEE binary16 */
    uint8_t qs[16]; /* value i is d * ((qs[i] & 15) - 8), value i + 16 is d * ((qs[i] >> 4) - 8) */
} hotfire_block_q4_0;""",
    encode_blocks=_encode,
    decode_blocks=_decode,
    poison_block=np.array([0x00, 0x7E] + [0xFF] * HALF, dtype=np.uint8),
    lowest_code=-128,
    is_lossy=True,
    encoding_error=_encoding_error,
)
