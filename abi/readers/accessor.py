"""A binding that shows only properties, such as hip-python's: told by poking bytes.

Its classes wrap a C struct that lies in memory of their own. Each byte of it is changed in turn,
and whichever property then reads differently lies there. Reading goes on in a forked process
for each class, as a property may follow a pointer that the poking made up.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from hotfire.abi import target as targets
from hotfire.abi.ctype import CHAR, VOID, Type, array, floating, integer, pointer
from hotfire.abi.manifest import Constant, Enum, Field, Manifest, Record
from hotfire.abi.manifest_json import read_record, write_record

MAX_SIZE = 1 << 14
"""A wrapped struct of more bytes is only sized: poking each would take too long."""


def read(module: str, *, python: str = "", names: Iterable[str] = ()) -> Manifest:
    """The manifest of a module of accessor classes.

    Args:
        module: its dotted name, or a file.
        python: the interpreter that has it; "" for this one.
        names: classes and enums to look at; all if none are named.

    Raises:
        InputError: if it cannot be imported.
    """
    from hotfire.abi.readers import child

    words = [module, json.dumps(sorted(names))]
    return child.read("hotfire.abi.readers.accessor", words, f"accessor:{module}", python)


class _Wrapped:
    """One object of an accessor class, and the memory behind it."""

    def __init__(self, cls: Any) -> None:
        self.object = cls()
        self.size = int(self.object.c_sizeof())
        self.base = _address(self.object)
        names = cls.PROPERTIES() if callable(cls.PROPERTIES) else cls.PROPERTIES
        self.names = tuple(dict.fromkeys(names))

    def fill(self, byte: int) -> None:
        """Sets every byte."""
        ctypes.memset(self.base, byte, self.size)

    def poke(self, at: int, byte: int) -> None:
        """Sets one byte."""
        ctypes.memset(self.base + at, byte, 1)

    def value(self, name: str) -> tuple[str, Any]:
        """What a property shows: of an inner struct its place, of anything else how it reads."""
        try:
            found = getattr(self.object, name)
        except Exception as error:
            return "raised", str(error)
        if isinstance(found, enum.Enum | bool | int | float | str | bytes | list | tuple):
            return "plain", found
        address = _address(found)
        if self.base <= address < self.base + self.size:
            return "inner", (address - self.base, type(found).__name__, int(found.c_sizeof()))
        return "address", address


def _address(wrapper: Any) -> int:
    try:
        return int(wrapper.as_c_void_p().value or 0)
    except (AttributeError, TypeError):
        return 0


def record_of(name: str, cls: Any) -> Record:
    """The record behind an accessor class, as far as its properties show it."""
    wrapped = _Wrapped(cls)
    if wrapped.size > MAX_SIZE:
        return Record(name, size=wrapped.size)
    wrapped.fill(0)
    before = {prop: wrapped.value(prop) for prop in wrapped.names}
    places: dict[str, list[int]] = {}
    for bit in range(wrapped.size * 8) if wrapped.size <= 16 else range(0, wrapped.size * 8, 8):
        wrapped.poke(bit // 8, 1 << bit % 8)
        for prop in wrapped.names:
            if before[prop][0] != "inner" and wrapped.value(prop) != before[prop]:
                places.setdefault(prop, []).append(bit)
        wrapped.poke(bit // 8, 0)
    step = 1 if wrapped.size <= 16 else 8
    wrapped.fill(0xFF)
    fields = []
    for prop in wrapped.names:
        kind, shown = before[prop]
        if kind == "inner":
            offset, of, _ = shown
            fields.append(Field(prop, Type("struct", name=of), offset * 8))
        elif prop in places:
            fields.append(_field(wrapped, prop, before[prop], places[prop], step))
    fields.sort(key=lambda member: member.bit_offset)
    return Record(name, size=wrapped.size, fields=tuple(_bounded(fields, wrapped.size)))


def _field(
    wrapped: _Wrapped, prop: str, before: tuple[str, Any], bits: list[int], step: int
) -> Field:
    """One property as a field: its place from what was poked, its type from how it reads."""
    kind, value = before
    first, width = bits[0], len(bits) * step
    size = width // 8
    if width % 8 or first % 8:
        return Field(prop, integer(4, False), first, width)
    if kind == "address":
        return Field(prop, pointer(VOID), first)
    if isinstance(value, float):
        return Field(prop, floating(size), first)
    if isinstance(value, list | tuple) and value:
        of = floating(size // len(value)) if isinstance(value[0], float) else None
        signed = _is_negative(wrapped.value(prop)[1])
        return Field(prop, array(of or integer(size // len(value), signed), len(value)), first)
    if kind == "plain" and isinstance(value, str | bytes):
        # Text ends at its first zero, so that only its first byte shows; its end is bounded later.
        return Field(prop, array(CHAR, size if size > 1 else None), first)
    return Field(prop, integer(size, _is_negative(wrapped.value(prop)[1])), first)


def _is_negative(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and _is_negative(value[0])
    if isinstance(value, str):
        # An enum's message about a value that it does not know starts with the number.
        return value.startswith("-")
    return isinstance(value, int) and value < 0


def _bounded(fields: list[Field], size: int) -> list[Field]:
    """Text of unknown length reaches to the next field."""
    found = []
    for at, member in enumerate(fields):
        if member.type.kind == "array" and member.type.count is None:
            end = fields[at + 1].offset if at + 1 < len(fields) else size
            member = Field(member.name, array(CHAR, end - member.offset), member.bit_offset)
        found.append(member)
    return found


def _forked(work: Callable[[], Record]) -> Record | None:
    """Runs work in a copy of this process; None if that dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            text = json.dumps(write_record(work()))
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return read_record("", json.loads(data)) if data else None


def manifest_of(module: Any, names: frozenset[str]) -> Manifest:
    """The records and enums of an imported module."""
    from dataclasses import replace

    records: dict[str, Record] = {}
    enums: dict[str, Enum] = {}
    constants: dict[str, Constant] = {}
    notes: list[str] = []
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, enum.Enum):
            values = tuple((k, int(m.value)) for k, m in value.__members__.items())
            enums[name] = Enum(name, integer(4, True), values)
        elif (
            isinstance(value, type) and hasattr(value, "c_sizeof") and hasattr(value, "PROPERTIES")
        ):
            if names and name not in names:
                continue
            found = _forked(lambda name=name, value=value: record_of(name, value))  # type: ignore[misc]
            if found is None:
                notes.append(f"{name} cannot be poked")
            else:
                records[name] = replace(found, name=name)
        elif isinstance(value, int) and not isinstance(value, bool) and name.isupper():
            constants[name] = Constant(name, value)
    return Manifest(
        source="accessor",
        target=targets.host(),
        pointer_size=ctypes.sizeof(ctypes.c_void_p),
        records=records,
        enums=enums,
        constants=constants,
        declared=frozenset([*records, *enums, *constants]),
        notes=tuple(notes),
    )


def _main() -> None:
    from hotfire.abi.readers import child, modules

    out = child.take_stdout()
    names = frozenset(json.loads(sys.argv[2]))
    child.give(out, manifest_of(modules.load(sys.argv[1]), names))


if __name__ == "__main__":
    _main()
