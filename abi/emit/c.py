"""C: static assertions, and declarations that a compiler or a cdef takes."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi import emit
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Field, Manifest, Record

_FLOATS = {4: "float", 8: "double", 2: "_Float16", 16: "long double", 12: "long double"}

_HEAD = """\
/* Written by `hotfire abi emit`. Include it after the declarations that it is about. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define HOTFIRE_ASSERT(condition, text) static_assert(condition, text)
#define HOTFIRE_ALIGN(type) alignof(type)
#else
#define HOTFIRE_ASSERT(condition, text) _Static_assert(condition, text)
#define HOTFIRE_ALIGN(type) _Alignof(type)
#endif
"""


# To ask about a deprecated function is not to use it.
_QUIET = (
    "#pragma GCC diagnostic push",
    '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"',
)


def assertions(library: Manifest, names: frozenset[str] | None) -> str:
    """Sizes, alignments, offsets, widths, values and prototypes, each as an assertion."""
    lines = [_HEAD]
    for record in emit.records_in_order(library, names):
        if not emit.is_unnamed(library, record.name):
            lines += _record_assertions(library, record)
    for name in emit.enums_of(library, names):
        lines += [
            _assert(f"({label}) == ({value})", label) for label, value in library.enums[name].values
        ]
    functions = emit.functions_of(library, names)
    if functions:
        lines += ["#if defined(__GNUC__) && !defined(__cplusplus)", *_QUIET]
        lines += [
            _assert(same, f"the prototype of {name}")
            for name in functions
            if (same := same_prototype(library, name))
        ]
        lines += ["#pragma GCC diagnostic pop", "#endif"]
    return "\n".join(lines) + "\n"


def _assert(condition: str, what: str) -> str:
    return f'HOTFIRE_ASSERT({condition}, "{what} differs from the library");'


def _record_assertions(library: Manifest, record: Record) -> Iterator[str]:
    name = tag(record)
    yield _assert(f"sizeof({name}) == {record.size}", f"the size of {name}")
    yield _assert(f"HOTFIRE_ALIGN({name}) == {record.align}", f"the alignment of {name}")
    for member in library.flat_fields(record):
        if member.bit_width is not None:
            continue
        what = f"{name}.{member.name}"
        yield _assert(
            f"offsetof({name}, {member.name}) == {member.offset}", f"the offset of {what}"
        )
        size = library.size_of(member.type)
        if size:
            sized = f"sizeof((({name} *)0)->{member.name})"
            yield _assert(f"{sized} == {size}", f"the width of {what}")


def same_prototype(library: Manifest, name: str) -> str:
    """C that is true if a function is declared as the library has it; "" if nobody can tell.

    To a compiler `const char *` and `char *` are two types, to a caller they are one: either
    spelling will do. Where a side does not know its qualifiers, pointers cannot be asked about.
    """
    function = library.functions[name]
    if not function.spelling and _points_to_data(function.type):
        return ""
    spellings = dict.fromkeys([declare(library, function.type, ""), function.spelling])
    return " || ".join(
        f"__builtin_types_compatible_p(__typeof__({name}), __typeof__({spelling}))"
        for spelling in spellings
        if spelling
    )


def _points_to_data(of: Type) -> bool:
    if of.kind == "pointer" and of.target.kind != "function":
        return True
    return any(map(_points_to_data, [*([of.to] if of.to else []), *(of.args or ())]))


def declarations(library: Manifest, names: frozenset[str] | None) -> str:
    """The library's enums, records and functions as C."""
    lines = [_HEAD.partition("#ifdef")[0]]
    lines += body(library, names)
    return "\n".join(lines) + "\n"


def body(library: Manifest, names: frozenset[str] | None) -> Iterator[str]:
    """The declarations alone, which a cdef takes too."""
    for name in emit.enums_of(library, names):
        values = ", ".join(f"{label} = {value}" for label, value in library.enums[name].values)
        text = f"{{ {values} }}"
        yield (
            f"enum {name} {text};" if library.enums[name].tagged else f"typedef enum {text} {name};"
        )
    for name, record in sorted(library.records.items()):
        if record.opaque and "." not in name:
            yield f"{record.kind} {name};"
    for record in emit.records_in_order(library, names):
        if not emit.is_unnamed(library, record.name):
            yield _record(library, record)
    for name in emit.functions_of(library, names):
        function = library.functions[name]
        yield f"{declare(library, function.type, name, function.names)};"


def _record(library: Manifest, record: Record) -> str:
    packing = "__attribute__((packed)) " if record.packed else ""
    members = _members(library, record)
    if record.tagged:
        return f"{record.kind} {packing}{record.name} {members};"
    return f"typedef {record.kind} {packing}{members} {record.name};"


def _members(library: Manifest, record: Record) -> str:
    lines = [f"    {_member(library, member)};" for member in record.fields]
    return "\n".join(["{", *lines, "}"])


def _member(library: Manifest, member: Field) -> str:
    of = member.type
    sizes = ""
    while of.kind == "array":
        sizes += f"[{'' if of.count is None else of.count}]"
        of = of.target
    if of.is_record and emit.is_unnamed(library, of.name):
        # A type without a name is written where it is used.
        inner = library.records[of.name]
        text = _members(library, inner).replace("\n", "\n    ")
        return f"{of.kind} {text} {member.name}{sizes}".rstrip()
    text = declare(library, member.type, member.name)
    return text if member.bit_width is None else f"{text} : {member.bit_width}"


def tag(record: Record) -> str:
    """How C names a record."""
    return f"{record.kind} {record.name}" if record.tagged else record.name


def declare(library: Manifest, of: Type, name: str, names: tuple[str, ...] = ()) -> str:
    """A C declaration of `name` as a type; without a name, the type itself."""
    if of.kind == "pointer":
        inner = of.target
        wrapped = f"(*{name})" if inner.kind in ("function", "array") else f"*{name}"
        return declare(library, inner, wrapped)
    if of.kind == "array":
        return declare(library, of.target, f"{name}[{'' if of.count is None else of.count}]")
    if of.kind == "function":
        shown = [
            declare(library, arg, names[at] if at < len(names) else "")
            for at, arg in enumerate(of.args or ())
        ]
        shown += ["..."] * of.variadic
        text = "" if of.args is None else ", ".join(shown) or "void"
        return declare(library, of.target, f"{name}({text})")
    return f"{_word(library, of)} {name}".rstrip()


def _word(library: Manifest, of: Type) -> str:
    if of.kind == "int":
        return of.name or f"{'' if of.signed else 'u'}int{of.size * 8}_t"
    if of.kind == "float":
        return _FLOATS[of.size]
    if of.is_record:
        record = library.records.get(of.name)
        return tag(record) if record else f"{of.kind} {of.name}"
    if of.kind == "enum":
        enum = library.enums.get(of.name)
        if enum is None or "." in of.name:
            return _word(library, enum.base) if enum else "int"
        return f"enum {of.name}" if enum.tagged else of.name
    if of.kind == "bytes":
        return f"struct {{ char bytes[{of.size}]; }}"
    return of.kind
