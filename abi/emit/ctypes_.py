"""ctypes: the library's records as Python classes, and assertions about a mirror's own."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from hotfire.abi import emit
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Manifest, Record

_INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
_FLOATS = {4: "c_float", 8: "c_double"}


def assertions(library: Manifest, names: frozenset[str] | None) -> str:
    """Statements to run at the end of a mirror's module, where its classes are in scope."""
    lines = [
        "# Written by `hotfire abi emit`. Run it where the mirror's classes are in scope.",
        "import ctypes",
        "",
    ]
    for record in emit.records_in_order(library, names):
        if emit.is_unnamed(library, record.name):
            continue
        name = record.name
        lines.append(f'assert ctypes.sizeof({name}) == {record.size}, "the size of {name} differs"')
        for member in record.fields:
            if member.name and member.bit_width is None:
                is_word = keyword.iskeyword(member.name)
                where = f'getattr({name}, "{member.name}")' if is_word else f"{name}.{member.name}"
                what = f"{name}.{member.name}"
                lines.append(
                    f'assert {where}.offset == {member.offset}, "the offset of {what} differs"'
                )
                size = library.size_of(member.type)
                lines.append(f'assert {where}.size == {size}, "the width of {what} differs"')
    return "\n".join(lines) + "\n"


def declarations(library: Manifest, names: frozenset[str] | None) -> str:
    """Classes for records, numbers for enums, and a function that binds a loaded library."""
    lines = ["# Written by `hotfire abi emit`.", "import ctypes", ""]
    for name in emit.enums_of(library, names):
        lines += [f"{label} = {value}" for label, value in library.enums[name].values]
    records = list(emit.records_in_order(library, names))
    opaque = sorted(name for name, record in library.records.items() if record.opaque)
    for name in opaque:
        lines.append(f"class {_plain(name)}(ctypes.Structure): pass")
    # Declared before any is laid out, as they may point to each other.
    for record in records:
        base = "Union" if record.kind == "union" else "Structure"
        lines.append(f"class {_plain(record.name)}(ctypes.{base}): pass")
    for record in records:
        lines += _layout(library, record)
    lines += ["", "", "def bind(library):"]
    lines += ['    """Declares every function of a loaded library."""']
    for name in emit.functions_of(library, names):
        of = library.functions[name].type
        args = ", ".join(_word(library, arg) for arg in of.args or ())
        lines.append(f"    library.{name}.argtypes = [{args}]")
        lines.append(f"    library.{name}.restype = {_word(library, of.target)}")
    lines.append("    return library")
    return "\n".join(lines) + "\n"


def _layout(library: Manifest, record: Record) -> Iterator[str]:
    name = _plain(record.name)
    if record.packed:
        yield f"{name}._pack_ = {record.align}"
    unnamed = [f"unnamed{at}" for at, member in enumerate(record.fields) if not member.name]
    if unnamed:
        yield f"{name}._anonymous_ = {unnamed!r}"
    yield f"{name}._fields_ = ["
    for at, member in enumerate(record.fields):
        bits = "" if member.bit_width is None else f", {member.bit_width}"
        yield f'    ("{member.name or f"unnamed{at}"}", {_word(library, member.type)}{bits}),'
    yield "]"


def _word(library: Manifest, of: Type) -> str:
    if of.kind == "void":
        return "None"
    if of.kind == "bool":
        return "ctypes.c_bool"
    if of.name == "char" and of.kind == "int":
        return "ctypes.c_char"
    if of.kind == "int":
        return f"ctypes.c_{'' if of.signed else 'u'}{_INTEGERS.get(of.size, 'int64')}"
    if of.kind == "float":
        return f"ctypes.{_FLOATS.get(of.size, 'c_longdouble')}"
    if of.kind == "enum":
        enum = library.enums.get(of.name)
        return _word(library, enum.base) if enum else "ctypes.c_int"
    if of.is_record:
        return _plain(of.name)
    if of.kind == "array":
        return f"{_word(library, of.target)} * {of.count or 0}"
    if of.is_callback:
        call = of.target
        words = [_word(library, call.target), *(_word(library, arg) for arg in call.args or ())]
        return f"ctypes.CFUNCTYPE({', '.join(words)})"
    if of.kind == "pointer":
        inner = of.target
        if inner.kind in ("void", "function"):
            return "ctypes.c_void_p"
        return (
            "ctypes.c_char_p"
            if inner.name == "char"
            else f"ctypes.POINTER({_word(library, inner)})"
        )
    return f"ctypes.c_char * {of.size}"


def _plain(name: str) -> str:
    return name.replace(".", "_")
