"""Header to manifest: what libclang makes of it for one target and one set of defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from hotfire.abi import target as targets
from hotfire.abi.ctype import BOOL, CHAR, VOID, Type, array, floating, integer, pointer
from hotfire.abi.manifest import Constant, Enum, Field, Function, Manifest, Record
from hotfire.abi.readers import clang
from hotfire.errors import InputError

FROM_HOST = "read with this machine's own headers of the C library"


def read(
    headers: Path | Sequence[Path],
    *,
    target: str = "",
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    language: str = "c",
    names: Iterable[str] = (),
) -> Manifest:
    """The manifest of what headers declare, and of all that this reaches.

    Args:
        headers: what a user of the library includes.
        target: triple or short name; "" for this machine.
        include: folders of included files.
        defines: `NAME` or `NAME=VALUE`, as the library's own build has them.
        language: c or c++.
        names: what counts as declared although an included file declares them.

    Raises:
        InputError: if something is missing or does not parse.
    """
    files = [headers] if isinstance(headers, Path) else list(headers)
    if not files:
        raise InputError("expected at least one header")
    unit = clang.parse(files, target=target, include=include, defines=defines, language=language)
    return _Reader(unit, frozenset(names)).manifest()


class _Reader:
    """Walks the top level of one translation unit, and follows types from there."""

    def __init__(self, unit: clang.Unit, wanted: frozenset[str]) -> None:
        from clang.cindex import CursorKind, TypeKind

        self.unit = unit
        self.wanted = wanted
        self.cursor_kinds = CursorKind
        self.kinds = clang.simple_kinds(TypeKind)
        self.type_kinds = TypeKind
        self.own = {str(path) for path in unit.headers}
        self.records: dict[str, Record] = {}
        self.enums: dict[str, Enum] = {}
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, Constant] = {}
        self.typedefs: dict[str, Type] = {}
        self.aliases: dict[str, list[str]] = {}
        self.redirects: dict[str, str] = {}
        self.declared: set[str] = set()
        self.types: dict[str, Type] = {}
        self.names: dict[int, str] = {}
        self.macro_values: list[Any] = []

    def manifest(self) -> Manifest:
        """Reads everything and puts it together."""
        prototypes: set[str] = set()
        for cursor in self.unit.root.get_children():
            self._top(cursor, prototypes)
        self._read_macros(prototypes)
        for name, others in self.aliases.items():
            aliases = tuple(sorted(set(others) - {name}))
            for table in (self.records, self.enums):
                found: Any = table.get(name)
                if found is not None and aliases:
                    table[name] = _with_aliases(found, aliases)
        return Manifest(
            source="header",
            target=targets.normal(self.unit.triple),
            pointer_size=self.unit.pointer_size,
            defines=self.unit.defines,
            records=self.records,
            enums=self.enums,
            functions=self.functions,
            constants=self.constants,
            typedefs=self.typedefs,
            redirects=self.redirects,
            declared=frozenset(self.declared),
            notes=(FROM_HOST,) if self.unit.from_host else (),
        )

    def _top(self, cursor: Any, prototypes: set[str]) -> None:
        kinds = self.cursor_kinds
        kind = cursor.kind
        if kind == kinds.VAR_DECL:
            if cursor.spelling.startswith((clang.VALUE, clang.TEXT)):
                self.macro_values.append(cursor)
            return
        if kind in (kinds.LINKAGE_SPEC, kinds.UNEXPOSED_DECL):
            for child in cursor.get_children():
                self._top(child, prototypes)
            return
        name = cursor.spelling
        if kind == kinds.FUNCTION_DECL:
            prototypes.add(name)
        elif kind not in (
            kinds.STRUCT_DECL,
            kinds.UNION_DECL,
            kinds.ENUM_DECL,
            kinds.TYPEDEF_DECL,
        ):
            return
        if kind == kinds.TYPEDEF_DECL:
            self._note_alias(cursor, name)
        if str(cursor.location.file) not in self.own and not self._is_wanted(cursor, name):
            return
        if kind == kinds.FUNCTION_DECL:
            self._function(cursor)
        elif kind == kinds.TYPEDEF_DECL:
            self._typedef(cursor)
        elif kind == kinds.ENUM_DECL:
            self._enum(cursor)
        elif not _unnamed(name):
            self.declared.add(self._type(cursor.type).name)

    def _is_wanted(self, cursor: Any, name: str) -> bool:
        """Whether the other side speaks of it; of an enum, also by one of its values."""
        if name in self.wanted:
            return True
        if not self.wanted or cursor.kind != self.cursor_kinds.ENUM_DECL:
            return False
        return any(child.spelling in self.wanted for child in self._constants(cursor))

    def _note_alias(self, cursor: Any, name: str) -> None:
        under = cursor.underlying_typedef_type.get_canonical()
        if under.kind in (self.type_kinds.RECORD, self.type_kinds.ENUM):
            tag = self._tag(under.get_declaration(), name)
            self.aliases.setdefault(tag, []).append(name)

    def _typedef(self, cursor: Any) -> None:
        found = self._type(cursor.underlying_typedef_type, cursor.spelling)
        if found.is_record or found.kind == "enum":
            self.declared.add(found.name)
        else:
            self.typedefs[cursor.spelling] = found
            self.declared.add(cursor.spelling)

    def _function(self, cursor: Any) -> None:
        name = cursor.spelling
        if name in self.functions or cursor.storage_class.name == "STATIC":
            return
        names = tuple(argument.spelling for argument in cursor.get_arguments())
        found = self._type(cursor.type, name)
        spelling = cursor.type.get_canonical().spelling
        self.functions[name] = Function(
            name, found, names, location=_place(cursor), spelling=clang.plain_c(spelling)
        )
        self.declared.add(name)
        linked = clang.linked_name(cursor, name) if self.unit.language == "c" else name
        if linked != name:
            # An asm label or `#pragma redefine_extname` renames as a macro would.
            self.redirects[name] = linked

    def _type(self, clang_type: Any, owner: str = "") -> Type:
        """A clang type as ours; `owner` names an unnamed record, as `outer.member`."""
        canonical = clang_type.get_canonical()
        spelling = canonical.spelling
        known = self.types.get(spelling)
        if known is None:
            known = self._new_type(canonical, owner)
            self.types[spelling] = known
        return known

    def _new_type(self, canonical: Any, owner: str) -> Type:
        kinds = self.type_kinds
        try:
            kind = canonical.kind
        except ValueError:
            # The Python side of libclang has no name for the half-precision types.
            return self._unnamed_kind(canonical)
        simple = self.kinds.get(kind)
        if simple == "int" or simple == "uint":
            return integer(canonical.get_size(), simple == "int")
        if simple == "float":
            return floating(canonical.get_size())
        if simple == "char":
            return CHAR
        if simple == "bool":
            return BOOL
        if simple == "void":
            return VOID
        if simple == "pointer":
            return pointer(self._type(canonical.get_pointee(), owner))
        if kind in (kinds.CONSTANTARRAY, kinds.VECTOR):
            return array(self._type(canonical.element_type, owner), canonical.element_count)
        if kind == kinds.INCOMPLETEARRAY:
            return array(self._type(canonical.element_type, owner), None)
        if kind in (kinds.FUNCTIONPROTO, kinds.FUNCTIONNOPROTO):
            return self._function_type(canonical, owner)
        if kind == kinds.RECORD:
            return self._record(canonical, owner)
        if kind == kinds.ENUM:
            return self._enum_type(canonical.get_declaration(), owner)
        if kind == kinds.ATOMIC:
            return self._type(clang.value_type(canonical), owner)
        return Type("bytes", max(canonical.get_size(), 0))

    def _unnamed_kind(self, canonical: Any) -> Type:
        size = max(canonical.get_size(), 0)
        return floating(size) if canonical.spelling.endswith("_Float16") else Type("bytes", size)

    def _function_type(self, canonical: Any, owner: str) -> Type:
        returns = self._type(canonical.get_result(), owner)
        if canonical.kind == self.type_kinds.FUNCTIONNOPROTO:
            return Type("function", to=returns)
        args = tuple(self._argument(arg, owner) for arg in canonical.argument_types())
        return Type(
            "function",
            to=returns,
            args=args,
            variadic=canonical.is_function_variadic(),
            convention=clang.convention(canonical),
        )

    def _argument(self, clang_type: Any, owner: str) -> Type:
        found = self._type(clang_type, owner)
        return pointer(found.target) if found.kind == "array" else found

    def _tag(self, declaration: Any, owner: str) -> str:
        name = str(declaration.spelling)
        if not _unnamed(name):
            return name
        key = declaration.hash
        return self.names.setdefault(key, owner or f"unnamed.{len(self.names)}")

    def _record(self, canonical: Any, owner: str) -> Type:
        declaration = canonical.get_declaration()
        name = self._tag(declaration, owner)
        is_union = declaration.kind == self.cursor_kinds.UNION_DECL
        found = Type("union" if is_union else "struct", name=name)
        if name in self.records:
            return found
        size = canonical.get_size()
        if size < 0:
            self.records[name] = Record(name, found.kind, opaque=True, location=_place(declaration))
            return found
        tagged = declaration.type.spelling.startswith(f"{found.kind} ") and not _unnamed(
            declaration.spelling
        )
        # Entered before its fields are read, as it may point to itself.
        self.types[canonical.spelling] = found
        self.records[name] = Record(name, found.kind, opaque=True)
        align = canonical.get_align()
        fields = tuple(self._fields(declaration, canonical, name))
        packed = any(
            member.bit_width is None and member.bit_offset // 8 % align_of
            for member, align_of in fields
            if align_of > 0
        )
        kept = tuple(member for member, _ in fields)
        place = _place(declaration)
        self.records[name] = Record(
            name, found.kind, size, align, kept, packed, tagged=tagged, location=place
        )
        return found

    def _fields(self, declaration: Any, canonical: Any, name: str) -> Iterable[tuple[Field, int]]:
        kinds = self.cursor_kinds
        anonymous = 0
        for child in declaration.get_children():
            if child.kind in (kinds.STRUCT_DECL, kinds.UNION_DECL):
                # Only one that declares no member of its own is part of the outer record.
                if "(anonymous" in child.spelling:
                    anonymous += 1
                    found = self._type(child.type, f"{name}.anonymous{anonymous}")
                    yield self._anonymous(child, canonical, found), child.type.get_align()
                continue
            if child.kind != kinds.FIELD_DECL or "(anonymous" in child.type.spelling:
                continue
            found = self._type(child.type, f"{name}.{child.spelling}")
            width = child.get_bitfield_width() if child.is_bitfield() else None
            if width is not None and not child.spelling:
                continue
            offset = child.get_field_offsetof()
            place = _place(child)
            yield Field(child.spelling, found, offset, width, place), child.type.get_align()

    def _anonymous(self, child: Any, outer: Any, found: Type) -> Field:
        """The place of an anonymous member, told by where one of its own members lies."""
        for name, inside in self._reached_names(found, 0):
            offset = outer.get_offset(name)
            if offset >= 0:
                return Field("", found, offset - inside)
        return Field("", found, max(child.get_field_offsetof(), 0))

    def _reached_names(self, of: Type, at: int) -> Iterator[tuple[str, int]]:
        """Names that a record lends to the one around it, and their first bits in it."""
        for member in self.records[of.name].fields:
            if member.name:
                yield member.name, at + member.bit_offset
            elif member.type.is_record:
                yield from self._reached_names(member.type, at + member.bit_offset)

    def _enum_type(self, declaration: Any, owner: str) -> Type:
        name = self._tag(declaration, owner)
        if name not in self.enums:
            definition = declaration.get_definition() or declaration
            base = definition.enum_type
            size = base.get_size() if base.get_size() > 0 else 4
            signed = self.kinds.get(base.get_canonical().kind) in ("int", "char")
            values = tuple(
                (child.spelling, child.enum_value) for child in self._constants(definition)
            )
            tagged = declaration.type.spelling.startswith("enum ")
            tagged = tagged and not _unnamed(declaration.spelling)
            base_type, place = integer(size, signed), _place(definition)
            self.enums[name] = Enum(
                name,
                base_type,
                values,
                tagged=tagged,
                location=place,
                scoped=declaration.is_scoped_enum(),
            )
        return Type("enum", name=name)

    def _constants(self, declaration: Any) -> list[Any]:
        wanted = self.cursor_kinds.ENUM_CONSTANT_DECL
        return [child for child in declaration.get_children() if child.kind == wanted]

    def _enum(self, cursor: Any) -> None:
        if not cursor.is_definition():
            return
        if not _unnamed(cursor.spelling):
            self.declared.add(self._type(cursor.type).name)
            return
        if cursor.hash in self.names:
            return
        for child in self._constants(cursor):
            name = child.spelling
            self.constants[name] = Constant(name, child.enum_value, _place(child))
            self.declared.add(name)

    def _read_macros(self, prototypes: set[str]) -> None:
        for cursor in self.macro_values:
            name = cursor.spelling
            value = clang.evaluate(cursor)
            if name.startswith(clang.TEXT):
                name = name.removeprefix(clang.TEXT)
                to, call, _ = str(value).partition("(")
                to = to.strip()
                # A macro with arguments over a function of the same name is a shorthand for C.
                shorthand = call and name in prototypes
                if to in prototypes and to != name and not shorthand:
                    self.redirects[name] = to
                    self.declared.add(name)
                elif to in self.records or to in self.enums:
                    # `#define props props_v2`: to users, another name of the type.
                    self.aliases.setdefault(to, []).append(name)
            elif value is not None and not (isinstance(value, float) and not isfinite(value)):
                # JSON has no infinity, and not-a-number differs from itself.
                name = name.removeprefix(clang.VALUE)
                self.constants[name] = Constant(name, value)
                self.declared.add(name)


def _with_aliases(found: Any, aliases: tuple[str, ...]) -> Any:
    from dataclasses import replace

    return replace(found, aliases=aliases)


def _unnamed(name: str) -> bool:
    return not name or "(unnamed" in name or "(anonymous" in name


def _place(cursor: Any) -> str:
    """`file:line`, from the working folder if the file is in it, so that annotations find it."""
    location = cursor.location
    return f"{_shown(location.file.name, Path.cwd())}:{location.line}" if location.file else ""


@cache
def _shown(file: str, here: Path) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name
