"""One model for every description of a C interface: what a header, a library or a mirror says.

A manifest is one side of a comparison, for one target and one set of defines. It is written as
sorted JSON with one line an item, so that it can be committed and its changes read as a diff.
Types are text in that file: `u32`, `*struct batch`, `[12]f32`, `fn(*void, i32) bool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hotfire.abi.ctype import Type
from hotfire.errors import InputError

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a record.

    Args:
        name: "" for an anonymous struct or union, whose members are reached without a name.
        type: its type; for a bitfield that of its container.
        bit_offset: from the record's start, in bits.
        bit_width: bits of a bitfield, else None.
        location: `file:line`; two fields are the same wherever they are written.
    """

    name: str
    type: Type
    bit_offset: int
    bit_width: int | None = None
    location: str = field(default="", compare=False)

    @property
    def offset(self) -> int:
        """Whole bytes from the record's start."""
        return self.bit_offset // 8


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or a union.

    Args:
        name: its tag, or its typedef where it has no tag; `outer.member` for an unnamed type
            of a member.
        kind: struct or union.
        size: sizeof in bytes; 0 where only declared.
        align: bytes.
        fields: in the order of declaration.
        packed: whether a field lies where its own alignment would not allow it.
        opaque: whether only its name is known.
        aliases: typedefs of it.
        tagged: whether C calls it `struct name`; False where the name is only a typedef's.
        location: `file:line`.
    """

    name: str
    kind: str = "struct"
    size: int = 0
    align: int = 1
    fields: tuple[Field, ...] = ()
    packed: bool = False
    opaque: bool = False
    aliases: tuple[str, ...] = ()
    tagged: bool = True
    location: str = ""


@dataclass(frozen=True, slots=True)
class Enum:
    """A named enum: its base integer and its values in the order of declaration.

    Args:
        name: its tag, or its typedef where it has no tag.
        base: the integer that holds it.
        values: label and number.
        aliases: typedefs of it.
        tagged: whether C calls it `enum name`.
        location: `file:line`.
        scoped: whether a label is only reached through the enum's name, as in Rust, Python and
            a C++ `enum class`: another enum may have the same label.
    """

    name: str
    base: Type
    values: tuple[tuple[str, int], ...]
    aliases: tuple[str, ...] = ()
    tagged: bool = True
    location: str = ""
    scoped: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function that is declared or bound.

    Args:
        name: as it is called.
        type: of kind function; its args are None where a mirror declares none.
        names: of the arguments, "" where one has none; empty where none is known.
        returns_known: False where a mirror left the return type at its default.
        location: `file:line`.
        spelling: its type as C, with the qualifiers that no comparison minds; "" if not known.
    """

    name: str
    type: Type
    names: tuple[str, ...] = ()
    returns_known: bool = True
    location: str = ""
    spelling: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A macro, or a value of an enum without a name."""

    name: str
    value: int | float | str
    location: str = ""


@dataclass(frozen=True)
class Manifest:
    """One side of a comparison.

    Args:
        source: header, dwarf, exports, cffi, ctypes, numpy, rust or paint.
        target: `arch-os`, or with the environment where that changes a layout.
        pointer_size: bytes.
        defines: those that were given, sorted.
        records, enums, functions, constants: by name.
        typedefs: what a name stands for, where that is no record and no enum.
        redirects: functions that a macro renames, and to what.
        declared: the names that the source itself declares, without what it only reaches.
        exports: symbols that the library offers; None where that is not known.
        needed: symbol versions that the library asks of others, by library.
        notes: what the source could not tell, in words.
    """

    source: str
    target: str
    pointer_size: int = 8
    defines: tuple[str, ...] = ()
    records: Mapping[str, Record] = field(default_factory=dict)
    enums: Mapping[str, Enum] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    typedefs: Mapping[str, Type] = field(default_factory=dict)
    redirects: Mapping[str, str] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    exports: tuple[str, ...] | None = None
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether a name that is absent here does not exist: so for text that a person wrote."""
        return self.source in ("header", "cffi")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a JSON file.

        Raises:
            InputError: if there is no such file, or it is no manifest.
        """
        try:
            return load(path.read_text(encoding="utf-8"), path.name)
        except OSError as error:
            raise InputError(
                f"expected a manifest, cannot read {path}: {error.strerror}"
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: expected a JSON manifest, got bytes that are no text"
            ) from error

    def names(self) -> set[str]:
        """Every name by which something of this could be looked for elsewhere."""
        aliases = {alias for enum in self.enums.values() for alias in enum.aliases}
        labels = {label for enum in self.enums.values() for label, _ in enum.values}
        return aliases | {
            *labels,
            *self.record_names,
            *self.enums,
            *self.functions,
            *self.typedefs,
            *self.values,
            *self.redirects,
        }

    @cached_property
    def record_names(self) -> dict[str, str]:
        """Every name and alias of a record, and the name that it goes by here."""
        aliases = {alias: r.name for r in self.records.values() for alias in r.aliases}
        return aliases | {name: name for name in self.records}

    @cached_property
    def values(self) -> dict[str, int | float | str]:
        """Every constant that its name alone tells: macros, and the values of unscoped enums."""
        found: dict[str, int | float | str] = {c.name: c.value for c in self.constants.values()}
        for enum in self.enums.values():
            if not enum.scoped:
                found.update(enum.values)
        return found

    def record(self, of: Type) -> Record | None:
        """The record that a type names, if its layout is known."""
        found = self.records.get(of.name) if of.is_record else None
        return found if found is not None and not found.opaque else None

    def size_of(self, of: Type) -> int:
        """Sizeof in bytes; 0 for void, functions, flexible arrays and opaque records."""
        if of.kind == "pointer":
            return self.pointer_size
        if of.kind == "array":
            return (of.count or 0) * self.size_of(of.target)
        if of.is_record:
            record = self.records.get(of.name)
            return record.size if record else of.size
        if of.kind == "enum":
            enum = self.enums.get(of.name)
            return enum.base.size if enum else of.size
        return of.size

    def flat_fields(self, record: Record, base: int = 0) -> Iterator[Field]:
        """Its fields with the members of anonymous structs and unions in their place."""
        for member in record.fields:
            inner = self.record(member.type) if not member.name else None
            at = base + member.bit_offset
            if inner is not None:
                yield from self.flat_fields(inner, at)
            elif member.name:
                yield replace(member, bit_offset=at)

    def width_of(self, member: Field) -> int:
        """Bits that a field takes."""
        return self.size_of(member.type) * 8 if member.bit_width is None else member.bit_width


def load(text: str, name: str) -> Manifest:
    """The manifest that a JSON text holds; `name` is the file's, for messages.

    Raises:
        InputError: if it is no manifest, or one of another schema.
    """
    from hotfire.abi import manifest_json

    try:
        tree: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: expected a JSON manifest, got text that is not JSON: {error}"
        ) from error
    return manifest_json.from_json(tree, name)


def dump(manifest: Manifest, *, locations: bool = False) -> str:
    """The manifest as sorted JSON text, one line an item; the same bytes for the same content.

    Args:
        manifest: what to write.
        locations: write `file:line` too; left out by default, as a line added at the top of a
            header would otherwise change every item.
    """
    from hotfire.abi import manifest_json

    return manifest_json.to_text(manifest, locations)
