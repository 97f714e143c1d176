"""bf16: the upper half of an IEEE binary32, one value a block.

sign, 8 bits of exponent, 7 of fraction; encoding rounds to nearest, halves to even.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotfire.ref.formats._format import Array, Bytes, Format


def _encode(values: NDArray[np.float32]) -> Bytes:
    bits = values.view(np.uint32).reshape(-1, 1)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = bits >> 16 | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype("<u2").view(np.uint8)


def _decode(stored: Bytes) -> Array:
    bits = np.ascontiguousarray(stored).view("<u2").astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64)


FORMAT = Format(
    name="bf16",
    block_len=1,
    block_size=2,
    alignment=2,
    c_type="uint16_t",
    c_declaration="",
    encode_blocks=_encode,
    decode_blocks=_decode,
    poison_block=np.array([0xC0, 0x7F], dtype=np.uint8),
    lowest_code=-128,
    is_lossy=True,
    encoding_error=lambda x: np.abs(x) * 2.0**-8 + 2.0**-134,
)
