"""DWARF 4 and 5 of a shared object or an object file to manifest.

Only top-level entries (and those in namespaces) are looked at, and types are followed from
there, so that bodies of functions cost nothing where the compiler wrote sibling links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotfire.abi.ctype import BOOL, CHAR, VOID, Type, array, floating, integer, pointer
from hotfire.abi.manifest import Enum, Field, Function, Manifest, Record
from hotfire.abi.readers import dwarf_units, elf
from hotfire.abi.readers.dwarf_units import children
from hotfire.abi.spelling import plain
from hotfire.errors import InputError

_RECORDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_class_type": "struct",
    "DW_TAG_union_type": "union",
}
_POINTERS = (
    "DW_TAG_pointer_type",
    "DW_TAG_reference_type",
    "DW_TAG_rvalue_reference_type",
    "DW_TAG_ptr_to_member_type",
)
_SCOPES = ("DW_TAG_namespace", "DW_TAG_module")
_RUST = 0x1C
_SIGNED, _UNSIGNED = (0x05, 0x0D), (0x07, 0x0E)
_BOOLEAN, _FLOAT, _SIGNED_CHAR, _UNSIGNED_CHAR, _UTF = 0x02, 0x04, 0x06, 0x08, 0x10


def read(library: Path, *, names: Iterable[str] | None = None) -> Manifest:
    """The manifest of a binary with debug information.

    Args:
        library: an ELF shared object or object file.
        names: what to look for; None for all that have a plain C name.

    Raises:
        InputError: if it is no ELF, is damaged, or has no DWARF.
    """
    with elf.opened(library) as file:
        return elf.guarded(
            library, lambda: _read(file, None if names is None else frozenset(names))
        )


def is_there(library: Path) -> bool:
    """Whether a file is an ELF with debug information.

    Raises:
        InputError: if it is no ELF, or is damaged.
    """
    with elf.opened(library) as file:
        return elf.guarded(library, lambda: bool(file.has_dwarf_info(strict=True)))


def _read(file: Any, names: frozenset[str] | None) -> Manifest:
    if not file.has_dwarf_info(strict=True):
        raise InputError(
            "expected DWARF debug information, found none; build it with -g, or compare with its "
            "header"
        )
    reader = _Reader(file, names)
    reader.walk(file.get_dwarf_info(relocate_dwarf_sections=True))
    return reader.manifest(elf.target_of(file), elf.exports_of(file))


class _Reader:
    """Follows debug entries from names to types."""

    def __init__(self, file: Any, wanted: frozenset[str] | None) -> None:
        self.wanted = wanted
        self.pointer_size: int = file.elfclass // 8
        self.little = bool(file.little_endian)
        self.records: dict[str, Record] = {}
        self.enums: dict[str, Enum] = {}
        self.functions: dict[str, Function] = {}
        self.typedefs: dict[str, Type] = {}
        self.aliases: dict[str, set[str]] = {}
        self.types: dict[int, Type] = {}
        self.aligns: dict[int, int] = {}
        self.rust = False
        self.generic: set[str] = set()
        self.wanted_plain = frozenset(plain(name) for name in wanted or ())

    def walk(self, info: Any) -> None:
        """Reads every unit."""
        mentions = dwarf_units.mentioning(info, self.wanted)
        for unit in info.iter_CUs():
            if not mentions(unit):
                continue
            top = unit.get_top_DIE()
            language = top.attributes.get("DW_AT_language")
            rust = language is not None and language.value == _RUST
            if rust and dwarf_units.is_standard_library(top):
                continue
            self.rust = self.rust or rust
            for entry in _entries(top, rust):
                self._top(entry)

    def manifest(self, target: str, exports: tuple[str, ...]) -> Manifest:
        """What was found."""
        records, enums = dict(self.records), dict(self.enums)
        for name, others in self.aliases.items():
            aliases = tuple(sorted(others - {name}))
            if aliases and name in records:
                records[name] = replace(records[name], aliases=aliases)
            if aliases and name in enums:
                enums[name] = replace(enums[name], aliases=aliases)
        return Manifest(
            source="rust" if self.rust else "dwarf",
            target=target,
            pointer_size=self.pointer_size,
            records=records,
            enums=enums,
            functions=self.functions,
            typedefs=self.typedefs,
            declared=frozenset([*records, *enums, *self.functions, *self.typedefs]) - self.generic,
            exports=exports or None,
        )

    def _wants(self, name: str) -> bool:
        if self.wanted is not None:
            # Rust mirrors follow Rust's own customs of naming.
            return name in self.wanted or (self.rust and plain(name) in self.wanted_plain)
        return bool(name) and name.isidentifier() and not name.startswith("__")

    def _top(self, entry: Any) -> None:
        name = _name(entry)
        if not self._wants(name):
            return
        if entry.tag in _RECORDS or entry.tag == "DW_TAG_enumeration_type":
            self.type_of(entry, name)
        elif entry.tag == "DW_TAG_typedef":
            found = self._named_by(entry, name)
            if found.is_record or found.kind == "enum":
                self.aliases.setdefault(found.name, set()).add(name)
            else:
                self.typedefs[name] = found
        elif self._is_function(entry) and name not in self.functions:
            of, names = self._function(entry, name)
            self.functions[name] = Function(name, of, names)

    def _is_function(self, entry: Any) -> bool:
        """Whether it can be called; a Rust mirror's own functions are no bindings of anything."""
        external = "DW_AT_external" in entry.attributes
        return entry.tag == "DW_TAG_subprogram" and external and not self.rust

    def _named_by(self, entry: Any, owner: str) -> Type:
        """The type that an entry's DW_AT_type names; void if it has none."""
        if "DW_AT_type" not in entry.attributes:
            return VOID
        return self.type_of(entry.get_DIE_from_attribute("DW_AT_type"), owner)

    def type_of(self, entry: Any, owner: str = "") -> Type:
        """One entry as a type; `owner` names a record without a name."""
        known = self.types.get(entry.offset)
        if known is None:
            known = self._new_type(entry, owner)
            self.types[entry.offset] = known
        return known

    def _new_type(self, entry: Any, owner: str) -> Type:
        tag = entry.tag
        if tag == "DW_TAG_base_type":
            return _base(entry)
        if tag in _RECORDS:
            return self._optional(entry, owner) or self._record(entry, owner)
        if tag == "DW_TAG_enumeration_type":
            # What Rust calls c_void is an enum of two private values.
            is_void = self.rust and _name(entry) == "c_void"
            return VOID if is_void else self._enum(entry, owner)
        if tag == "DW_TAG_array_type":
            return self._array(entry, owner)
        if tag == "DW_TAG_subroutine_type":
            return self._function(entry, owner)[0]
        if tag in _POINTERS:
            found = pointer(VOID)
            if "DW_AT_type" in entry.attributes:
                found = pointer(self._named_by(entry, owner))
            return found
        # typedef, const, volatile, restrict, atomic: what they stand for.
        return self._named_by(entry, _name(entry) or owner)

    def _optional(self, entry: Any, owner: str) -> Type | None:
        """Rust's `Option` of a pointer or a function is that pointer, with null for `None`."""
        if not (self.rust and _name(entry).startswith("Option<")):
            return None
        for child in children(entry):
            if child.tag == "DW_TAG_structure_type" and _name(child) == "Some":
                for member in children(child):
                    if member.tag == "DW_TAG_member":
                        return self._named_by(member, owner)
        return None

    def _array(self, entry: Any, owner: str) -> Type:
        found = self._named_by(entry, owner)
        counts = [_count(child) for child in children(entry) if "subrange" in child.tag]
        for count in reversed(counts or [None]):
            found = array(found, count)
        return found

    def _function(self, entry: Any, owner: str) -> tuple[Type, tuple[str, ...]]:
        args, names, variadic = [], [], False
        for child in children(entry):
            if child.tag == "DW_TAG_formal_parameter":
                name = _name(child)
                found = self._named_by(_origin(child), f"{owner}.{name}")
                args.append(pointer(found.target) if found.kind == "array" else found)
                names.append(name)
            elif child.tag == "DW_TAG_unspecified_parameters":
                # C's `f()` says nothing of its parameters, and is no `f(...)`.
                variadic = bool(args)
        returns = self._named_by(_origin(entry), owner)
        of = Type("function", to=returns, args=tuple(args), variadic=variadic)
        return of, tuple(names)

    def _record(self, entry: Any, owner: str) -> Type:
        kind = _RECORDS[entry.tag]
        name = _plain(_name(entry)) or owner or f"unnamed.{entry.offset:x}"
        found = Type(kind, name=name)
        # Entered before its fields are read, as it may point to itself.
        self.types[entry.offset] = found
        known = self.records.get(name)
        if known is not None and not known.opaque:
            return found
        if "DW_AT_declaration" in entry.attributes or "DW_AT_byte_size" not in entry.attributes:
            self.records.setdefault(name, Record(name, kind, opaque=True))
            return found
        size = entry.attributes["DW_AT_byte_size"].value
        if "<" in _name(entry):
            self.generic.add(name)
        elif self.rust and size == 0:
            # C has no empty record: it is how Rust writes one that is only declared.
            self.records[name] = Record(name, kind, opaque=True)
            return found
        self.records[name] = Record(name, kind, size)
        fields = tuple(self._fields(entry, name))
        align = max([1, *(self._align(member.type) for member in fields)])
        packed = any(
            member.bit_width is None and member.offset % self._align(member.type)
            for member in fields
        )
        stated = entry.attributes.get("DW_AT_alignment")
        if stated is not None:
            align = stated.value
        elif packed or size % align:
            align = 1
        self.records[name] = Record(
            name, kind, size, align, fields, packed or bool(size % align), tagged=bool(_name(entry))
        )
        return found

    def _align(self, of: Type) -> int:
        """Alignment of a type; DWARF says it only where it is unusual."""
        if of.kind == "array":
            return self._align(of.target)
        if of.is_record:
            found = self.records.get(of.name)
            return found.align if found else 1
        if of.kind == "enum":
            return int(self.enums[of.name].base.size)
        if of.kind == "pointer":
            return self.pointer_size
        # i386 aligns 8-byte scalars to 4 in a struct.
        limit = 4 if self.pointer_size == 4 and of.size == 8 else 16
        return int(max(1, min(of.size, limit)))

    def _fields(self, entry: Any, name: str) -> Iterator[Field]:
        anonymous = 0
        for child in children(entry):
            if child.tag == "DW_TAG_inheritance":
                found = self._named_by(child, name)
                yield Field("", found, _offset(child) * 8)
            if child.tag != "DW_TAG_member" or "DW_AT_external" in child.attributes:
                continue
            member = _name(child)
            if not member:
                anonymous += 1
            found = self._named_by(child, f"{name}.{member or f'anonymous{anonymous}'}")
            width = child.attributes.get("DW_AT_bit_size")
            if width is None:
                yield Field(member, found, _offset(child) * 8)
            else:
                yield Field(member, found, self._first_bit(child, found, width.value), width.value)

    def _first_bit(self, child: Any, of: Type, width: int) -> int:
        attributes = child.attributes
        if "DW_AT_data_bit_offset" in attributes:
            return int(attributes["DW_AT_data_bit_offset"].value)
        # DWARF 2's form counts from the most significant bit of the container.
        start = _offset(child) * 8
        from_top = attributes["DW_AT_bit_offset"].value if "DW_AT_bit_offset" in attributes else 0
        stated = attributes.get("DW_AT_byte_size")
        bits = 8 * (stated.value if stated is not None else of.size)
        return int(start + (bits - from_top - width if self.little else from_top))

    def _enum(self, entry: Any, owner: str) -> Type:
        name = _plain(_name(entry)) or owner or f"unnamed.{entry.offset:x}"
        if name in self.enums and self.enums[name].values:
            return Type("enum", name=name)
        size = (
            entry.attributes["DW_AT_byte_size"].value
            if "DW_AT_byte_size" in entry.attributes
            else 4
        )
        values = tuple(
            (_name(child), child.attributes["DW_AT_const_value"].value)
            for child in children(entry)
            if child.tag == "DW_TAG_enumerator"
        )
        base = self._named_by(entry, "")
        signed = base.signed if base.kind == "int" else any(value < 0 for _, value in values)
        if not signed:
            # A data form has no sign; an unsigned base says how to read it.
            values = tuple((label, value % (1 << 8 * size)) for label, value in values)
        self.enums[name] = Enum(
            name,
            integer(size, signed),
            values,
            tagged=bool(_name(entry)),
            scoped=self.rust or "DW_AT_enum_class" in entry.attributes,
        )
        return Type("enum", name=name)


def _entries(top: Any, namespaces: bool) -> Iterator[Any]:
    """Entries of a unit; in namespaces too where names of a C interface may lie there."""
    for child in children(top):
        if child.tag in _SCOPES:
            if namespaces:
                yield from _entries(child, namespaces)
        else:
            yield child


def _name(entry: Any) -> str:
    found = _origin(entry).attributes.get("DW_AT_name")
    return found.value.decode("utf-8", "replace") if found is not None else ""


def _plain(name: str) -> str:
    """A record's name without what a type's text could not hold."""
    return name.translate({ord(letter): "_" for letter in " ,()<>*&"})


def _origin(entry: Any) -> Any:
    """The entry that holds the name and type of one that only repeats it."""
    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if link in entry.attributes and "DW_AT_name" not in entry.attributes:
            return _origin(entry.get_DIE_from_attribute(link))
    return entry


def _offset(entry: Any) -> int:
    place = entry.attributes.get("DW_AT_data_member_location")
    if place is None:
        return 0
    if isinstance(place.value, int):
        return place.value
    # An expression: DW_OP_plus_uconst and a LEB128 number.
    value = shift = 0
    for byte in place.value[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value


def _count(entry: Any) -> int | None:
    for name, more in (("DW_AT_count", 0), ("DW_AT_upper_bound", 1)):
        found = entry.attributes.get(name)
        if found is not None and isinstance(found.value, int):
            return found.value + more
    return None


def _base(entry: Any) -> Type:
    size = entry.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in entry.attributes else 0
    encoding = entry.attributes["DW_AT_encoding"].value
    if encoding == _BOOLEAN:
        return BOOL
    if encoding == _FLOAT:
        return floating(size)
    if encoding in (_SIGNED_CHAR, _UNSIGNED_CHAR) and _name(entry) == "char":
        return CHAR
    if encoding in (*_SIGNED, _SIGNED_CHAR):
        return integer(size, True)
    if encoding in (*_UNSIGNED, _UNSIGNED_CHAR, _UTF):
        return integer(size, False)
    return Type("bytes", size)
