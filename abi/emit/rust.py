"""Rust: assertions that hold at compile time, and `repr(C)` declarations."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi import emit
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Field, Manifest, Record

_KEYWORDS = frozenset(
    """as async await break const continue crate dyn else enum extern false fn for if impl in let
    loop match mod move mut pub ref return static struct trait true type unsafe use where while
    abstract become box do final macro override priv try typeof unsized virtual yield""".split()  # noqa: SIM905
)

_HEAD = """\
// Written by `hotfire abi emit`. Include it where the mirror's records are in scope:
// `include!("abi.rs");`
"""

_WIDTH = """\
#[allow(dead_code)]
const fn hotfire_width<Record, Member>(_: fn(&Record) -> &Member) -> usize {
    core::mem::size_of::<Member>()
}
"""


def assertions(library: Manifest, names: frozenset[str] | None) -> str:
    """Sizes, alignments, offsets and widths of every record, as constants that must evaluate."""
    lines = [_HEAD, _WIDTH]
    for record in emit.records_in_order(library, names):
        if not emit.is_unnamed(library, record.name):
            lines += _record_assertions(library, record)
    return "\n".join(lines) + "\n"


def _assert(condition: str, what: str) -> str:
    return f'const _: () = assert!({condition}, "{what} differs from the library");'


def _record_assertions(library: Manifest, record: Record) -> Iterator[str]:
    name = record.name
    yield _assert(f"core::mem::size_of::<{name}>() == {record.size}", f"the size of {name}")
    yield _assert(f"core::mem::align_of::<{name}>() == {record.align}", f"the alignment of {name}")
    for member in record.fields:
        # Rust has no bitfields and no unnamed members; what stands for them has its own names.
        if member.bit_width is not None or not member.name:
            continue
        field = _escaped(member.name)
        what = f"{name}.{member.name}"
        at = f"core::mem::offset_of!({name}, {field}) == {member.offset}"
        yield _assert(at, f"the offset of {what}")
        size = library.size_of(member.type)
        if size and not record.packed and record.kind == "struct":
            width = f"hotfire_width(|record: &{name}| &record.{field}) == {size}"
            yield _assert(width, f"the width of {what}")


def declarations(library: Manifest, names: frozenset[str] | None) -> str:
    """The library's records as `repr(C)`, its enums as constants, its functions as imports."""
    lines = ["// Written by `hotfire abi emit`."]
    for name in emit.enums_of(library, names):
        base = _scalar(library.enums[name].base)
        lines.append(f"pub type {name} = {base};")
        lines += [
            f"pub const {label}: {base} = {value};" for label, value in library.enums[name].values
        ]
    for name, record in sorted(library.records.items()):
        if record.opaque and "." not in name:
            lines.append(f"#[repr(C)] pub struct {name} {{ _private: [u8; 0] }}")
    for record in emit.records_in_order(library, names):
        lines.append(_record(library, record))
    functions = emit.functions_of(library, names)
    if functions:
        lines.append('extern "C" {')
        lines += [f"    {_function(library, name)}" for name in functions]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _record(library: Manifest, record: Record) -> str:
    # Bytes stand for bitfields, so that the alignment must be said.
    has_bits = any(member.bit_width is not None for member in record.fields)
    packing = ", packed" if record.packed else f", align({record.align})" if has_bits else ""
    lines = [f"#[repr(C{packing})]", "#[derive(Copy, Clone)]"]
    lines.append(f"pub {record.kind} {_plain(record.name)} {{")
    lines += [f"    pub {name}: {text}," for name, text in _fields(library, record)]
    return "\n".join([*lines, "}"])


def _fields(library: Manifest, record: Record) -> Iterator[tuple[str, str]]:
    """Fields as Rust has them: runs of bitfields become the bytes that they share."""
    end = 0
    unnamed = 0
    for member in record.fields:
        if member.bit_width is not None:
            last = -(-(member.bit_offset + member.bit_width) // 8)
            if last > end:
                yield f"bits_{end}", f"[u8; {last - max(end, member.offset)}]"
                end = last
            continue
        unnamed += not member.name
        yield (
            _escaped(member.name) if member.name else f"unnamed{unnamed}",
            _word(library, member.type),
        )
        end = _end(library, member)


def _end(library: Manifest, member: Field) -> int:
    return member.offset + library.size_of(member.type)


def _function(library: Manifest, name: str) -> str:
    function = library.functions[name]
    args = function.type.args or ()
    names = [*function.names, *[""] * len(args)]
    shown = [
        f"{_escaped(names[at] or f'a{at}')}: {_word(library, arg)}" for at, arg in enumerate(args)
    ]
    shown += ["..."] * function.type.variadic
    returns = function.type.target
    arrow = "" if returns.kind == "void" else f" -> {_word(library, returns)}"
    return f"pub fn {name}({', '.join(shown)}){arrow};"


def _word(library: Manifest, of: Type) -> str:
    if of.kind in ("int", "float", "bool"):
        return _scalar(of)
    if of.is_callback:
        call = of.target
        args = ", ".join(_word(library, arg) for arg in call.args or ())
        arrow = "" if call.target.kind == "void" else f" -> {_word(library, call.target)}"
        return f'Option<unsafe extern "C" fn({args}){arrow}>'
    if of.kind == "pointer":
        return f"*mut {_word(library, of.target)}"
    if of.kind == "array":
        return f"[{_word(library, of.target)}; {of.count or 0}]"
    if of.kind == "enum":
        enum = library.enums.get(of.name)
        return _scalar(enum.base) if enum else "i32"
    if of.is_record:
        return _plain(of.name)
    return f"[u8; {of.size}]" if of.kind == "bytes" else "core::ffi::c_void"


def _scalar(of: Type) -> str:
    if of.kind == "bool":
        return "bool"
    if of.name == "char":
        return "core::ffi::c_char"
    if of.kind == "float" and of.size not in (4, 8):
        return f"[u8; {of.size}]"
    letter = "f" if of.kind == "float" else "i" if of.signed else "u"
    return f"{letter}{of.size * 8}"


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _escaped(name: str) -> str:
    return f"r#{name}" if name in _KEYWORDS else name
