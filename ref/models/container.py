"""The GGUF container, read with every length checked before it is believed.

magic, version 2 or 3, n_tensors, n_fields; the fields; the tensors' names, sizes, types, offsets;
padding; the data. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Sizes come
innermost first in the file and outermost first here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Bytes
from hotfire.ref.models.tensors import Tensor, n_bytes

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DTYPES = {0: "f32", 1: "f16", 2: "q4_0", 8: "q8_0", 30: "bf16"}
"""ggml's type ids of what a weight may be stored as."""

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}  # fmt: skip
STRING, ARRAY = 8, 9
RANK_MAX = 4
AXIS_MAX = 2**40
NAME_MAX = 65535
ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class Container:
    """What a GGUF file holds: fields and tensors by name."""

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


class _Cursor:
    """Reads a file from front to back, and never past its end."""

    def __init__(self, path: Path, data: Bytes) -> None:
        self.path, self.data, self.at = path, data, 0

    def take(self, size: int, what: str) -> Bytes:
        """The next bytes."""
        if size > self.left:
            raise InputError(
                f"{self.path}: {what} at byte {self.at} takes {size} bytes, {self.left} are left; "
                "the file is truncated or damaged"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self.data) - self.at

    def scalar(self, kind: str, what: str) -> Any:
        """One little-endian number, by its `struct` letter."""
        size = struct.calcsize("<" + kind)
        return struct.unpack("<" + kind, self.take(size, what).tobytes())[0]

    def string(self, what: str, most: int | None = None) -> str:
        """A length and that much UTF-8."""
        length = self.scalar("Q", what)
        if most is not None and length > most:
            raise InputError(f"{self.path}: {what} of {length} bytes; expected at most {most}")
        text = self.take(length, what).tobytes()
        if most is None:  # a byte-level token need not be UTF-8
            return text.decode(errors="surrogateescape")
        name = text.decode(errors="replace")
        if not name.isprintable() or "\N{REPLACEMENT CHARACTER}" in name:
            raise InputError(f"{self.path}: {what} at byte {self.at} is not printable UTF-8")
        return name

    def count(self, least_size: int, what: str) -> int:
        """How many things follow, each of at least `least_size` bytes."""
        count = int(self.scalar("Q", what))
        if count * least_size > self.left:
            raise InputError(
                f"{self.path}: {count} {what} do not fit into the {self.left} bytes that are left"
            )
        return count

    def value(self, kind: int, what: str) -> Any:
        """A field's value: a number, a string, or a list of either."""
        if kind in SCALARS:
            return self.scalar(SCALARS[kind], what)
        if kind == STRING:
            return self.string(what)
        if kind != ARRAY:
            raise InputError(f"{self.path}: {what} has the unknown type {kind}")
        inner = self.scalar("I", what)
        if inner in SCALARS:
            dtype = np.dtype("<" + SCALARS[inner] if inner != 7 else "?")
            count = self.count(dtype.itemsize, f"values of {what}")
            return self.take(count * dtype.itemsize, what).view(dtype).tolist()
        if inner != STRING:
            raise InputError(f"{self.path}: {what} is an array of type {inner}; expected a scalar")
        return [self.string(what) for _ in range(self.count(8, f"strings of {what}"))]


def read(path: Path) -> Container:
    """Reads a GGUF file; tensor data is mapped, and decoded on demand.

    Raises:
        InputError: if it is no GGUF file, truncated, damaged, or has a type that is not read here.
    """
    try:
        size = path.stat().st_size
        data = np.memmap(path, dtype=np.uint8, mode="r") if size else np.zeros(0, dtype=np.uint8)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    cursor = _Cursor(path, data)
    if cursor.take(4, "the magic").tobytes() != MAGIC:
        raise InputError(f"{path} is no GGUF file: it does not begin with GGUF")
    version = cursor.scalar("I", "the version")
    if version not in VERSIONS:
        raise InputError(f"{path}: GGUF version {version}; expected one of {VERSIONS}")
    n_tensors = cursor.count(24, "tensors")
    n_fields = cursor.count(13, "fields")
    fields: dict[str, Any] = {}
    for _ in range(n_fields):
        name = cursor.string("a field's name", NAME_MAX)
        if name in fields:
            raise InputError(f"{path}: the field {name} occurs twice")
        fields[name] = cursor.value(cursor.scalar("I", name), name)
    infos = [_tensor_info(cursor) for _ in range(n_tensors)]
    return Container(path, fields, _tensors(cursor, infos, _alignment(path, fields)))


def _alignment(path: Path, fields: dict[str, Any]) -> int:
    alignment = fields.get(ALIGNMENT, 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20 or alignment & alignment - 1:
        raise InputError(f"{path}: {ALIGNMENT} is {alignment!r}; expected a power of two <= 2^20")
    return alignment


_Info = tuple[str, tuple[int, ...], int, int]


def _tensor_info(cursor: _Cursor) -> _Info:
    name = cursor.string("a tensor's name", NAME_MAX)
    rank = cursor.scalar("I", name)
    if rank > RANK_MAX:
        raise InputError(f"{cursor.path}: tensor {name} has {rank} axes; expected <= {RANK_MAX}")
    sizes = [cursor.scalar("Q", name) for _ in range(rank)]
    absurd = next((size for size in sizes if not 1 <= size <= AXIS_MAX), None)
    if absurd is not None:
        raise InputError(
            f"{cursor.path}: tensor {name} has an axis of {absurd} values; expected 1 to 2^40"
        )
    return name, tuple(reversed(sizes)), cursor.scalar("I", name), cursor.scalar("Q", name)


def _tensors(cursor: _Cursor, infos: list[_Info], alignment: int) -> dict[str, Tensor]:
    path = cursor.path
    begin = -(-cursor.at // alignment) * alignment
    room = max(0, len(cursor.data) - begin)
    found: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, shape, code, offset in infos:
        if code not in DTYPES:
            raise InputError(
                f"{path}: tensor {name} has ggml type {code}; expected one of "
                f"{', '.join(f'{number} ({dtype})' for number, dtype in DTYPES.items())}"
            )
        if name in found:
            raise InputError(f"{path}: the tensor {name} occurs twice")
        try:
            size = n_bytes(DTYPES[code], shape)
        except InputError as error:
            raise InputError(f"{path}: tensor {name}: {error}") from None
        if offset % alignment or offset + size > room:
            raise InputError(
                f"{path}: tensor {name} takes {size} bytes at {offset} of {room}, alignment "
                f"{alignment}; the file is truncated or damaged"
            )
        spans.append((offset, offset + size, name))
        at = begin + offset
        found[name] = Tensor(DTYPES[code], shape, cursor.data[at : at + size])
    at, before = 0, ""
    for first, end, name in sorted(spans):
        if first < at:
            raise InputError(f"{path}: tensor {name} overlaps {before}")
        at, before = end, name
    return found
