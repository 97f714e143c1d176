"""What a storage format is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.errors import ShapeError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Format:
    """How `block_len` consecutive values are stored in `block_size` bytes.

    Args:
        name: the dtype's name in specs and kernel names.
        block_len: values a block.
        block_size: bytes a block.
        alignment: bytes; what an array of blocks must be aligned to.
        c_type: the C type of one block.
        c_declaration: the C declaration of that type, "" for a built-in one.
        encode_blocks: [n, block_len] f32 (float64 for whole numbers) -> [n, block_size] uint8.
        decode_blocks: [n, block_size] uint8 -> [n, block_len] float64 or int64, exact.
        poison_block: [block_size] uint8 that decodes to NaN wherever the format can say NaN.
        lowest_code: the least byte, as a signed number, that an encoder writes behind the scale.
        is_lossy: whether decode(encode(x)) may differ from an f32 x.
        encoding_error: [..., n] float64 -> the largest |decode(encode(x)) - x| that any encoder
            which rounds to the nearest code may leave, an element.
        is_integer: whether it holds whole numbers, which are compared exactly.
    """

    name: str
    block_len: int
    block_size: int
    alignment: int
    c_type: str
    c_declaration: str
    encode_blocks: Callable[[NDArray[Any]], Bytes]
    decode_blocks: Callable[[Bytes], Array]
    poison_block: Bytes
    lowest_code: int
    is_lossy: bool
    encoding_error: Callable[[Array], Array]
    is_integer: bool = False

    def n_bytes(self, shape: tuple[int, ...]) -> int:
        """Bytes that values of this shape take.

        Raises:
            ShapeError: if the last axis is no multiple of `block_len`.
        """
        if shape and shape[-1] % self.block_len:
            raise ShapeError(
                f"{self.name} stores blocks of {self.block_len} values; got a last axis of "
                f"{shape[-1]}; make it a multiple of {self.block_len}"
            )
        return int(np.prod(shape, dtype=np.int64)) // self.block_len * self.block_size

    def encode(self, values: NDArray[Any]) -> Bytes:
        """Stores values: [..., n] -> [n_bytes] uint8, row after row, rounded to f32 first unless
        they are whole numbers.
        """
        self.n_bytes(values.shape)
        if self.is_integer:
            return self.encode_blocks(np.ascontiguousarray(values)).reshape(-1)
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(values, dtype=np.float32)
        return self.encode_blocks(single.reshape(-1, self.block_len)).reshape(-1)

    def decode(self, stored: Bytes, shape: tuple[int, ...]) -> Array:
        """Reads values: [n_bytes] uint8 -> `shape` float64 or int64, without rounding."""
        with np.errstate(invalid="ignore"):
            return self.decode_blocks(stored.reshape(-1, self.block_size)).reshape(shape)

    def poison(self, shape: tuple[int, ...]) -> Bytes:
        """Bytes for `shape` that make a result NaN or absurd if they are ever read."""
        return np.tile(self.poison_block, self.n_bytes(shape) // self.block_size)
