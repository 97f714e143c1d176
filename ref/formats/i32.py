"""i32: whole numbers, two's complement: positions, ids, starts. They decode to int64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotfire.ref.formats._format import Array, Bytes, Format

LEAST = -(2**31)


def _encode(values: NDArray[np.float64]) -> Bytes:
    return values.astype("<i4").view(np.uint8).reshape(-1, 4)


def _decode(stored: Bytes) -> Array:
    whole: Array = np.ascontiguousarray(stored).view("<i4").astype(np.int64)
    return whole


FORMAT = Format(
    name="i32",
    block_len=1,
    block_size=4,
    alignment=4,
    c_type="int32_t",
    c_declaration="",
    encode_blocks=_encode,
    decode_blocks=_decode,
    poison_block=np.array([LEAST], dtype="<i4").view(np.uint8),
    lowest_code=-128,
    is_lossy=False,
    is_integer=True,
    encoding_error=np.zeros_like,
)
