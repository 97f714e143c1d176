"""Reads MessagePack, the encoding of the metadata in AMD code objects.

Covers what such metadata holds: nil, booleans, integers, strings, binary, arrays and maps
(https://github.com/msgpack/msgpack/blob/master/spec.md).
"""

from __future__ import annotations

import struct
from typing import Any

from hotfire.errors import InputError

_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_COUNTS = {0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def decode(data: bytes) -> Any:
    """The first value in `data`.

    Raises:
        InputError: if it ends early or holds a type that metadata has no use for.
    """
    try:
        return _Reader(data).value()
    except (struct.error, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"expected MessagePack metadata: {error}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self) -> Any:
        kind = self._number(">B")
        if kind < 0x80:
            return kind
        if kind < 0x90:
            return self._map(kind & 15)
        if kind < 0xA0:
            return self._array(kind & 15)
        if kind < 0xC0:
            return self._text(kind & 31)
        if kind >= 0xE0:
            return kind - 0x100
        return self._long(kind)

    def _long(self, kind: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind in _LENGTHS:
            n = self._number(_LENGTHS[kind])
            return self._text(n) if kind >= 0xD9 else self._take(n)
        if kind in _COUNTS:
            n = self._number(_COUNTS[kind])
            return self._map(n) if kind >= 0xDE else self._array(n)
        raise InputError(f"expected MessagePack metadata, found a value of type 0x{kind:02x}")

    def _take(self, n: int) -> bytes:
        if self.at + n > len(self.data):
            raise InputError(f"expected {n} more bytes of metadata, found its end")
        self.at += n
        return self.data[self.at - n : self.at]

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _text(self, n: int) -> str:
        return self._take(n).decode()

    def _array(self, n: int) -> list[Any]:
        return [self.value() for _ in range(n)]

    def _map(self, n: int) -> dict[Any, Any]:
        return {self.value(): self.value() for _ in range(n)}
