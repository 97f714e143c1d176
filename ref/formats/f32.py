"""f32: IEEE 754 binary32, one value a block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotfire.ref.formats._format import Array, Bytes, Format


def _encode(values: NDArray[np.float32]) -> Bytes:
    return values.view(np.uint8).reshape(-1, 4)


def _decode(stored: Bytes) -> Array:
    return stored.reshape(-1).view(np.float32).astype(np.float64).reshape(-1, 1)


FORMAT = Format(
    name="f32",
    block_len=1,
    block_size=4,
    alignment=4,
    c_type="float",
    c_declaration="",
    encode_blocks=_encode,
    decode_blocks=_decode,
    poison_block=np.array([np.nan], dtype=np.float32).view(np.uint8),
    lowest_code=-128,
    is_lossy=False,
    encoding_error=lambda x: np.abs(x) * 2.0**-24,
)
