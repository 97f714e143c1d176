"""cffi: the cdef that a library's headers come to, and assertions about a mirror's own."""

from __future__ import annotations

from hotfire.abi import emit
from hotfire.abi.emit import c
from hotfire.abi.manifest import Manifest
from hotfire.errors import InputError


def assertions(library: Manifest, names: frozenset[str] | None) -> str:
    """Statements to run after `ffi.cdef(...)`, where `ffi` is in scope."""
    lines = [
        "# Written by `hotfire abi emit`. Run it after the mirror's cdef, where `ffi` is in scope."
    ]
    for record in emit.records_in_order(library, names):
        if emit.is_unnamed(library, record.name):
            continue
        name = c.tag(record)
        lines.append(f'assert ffi.sizeof("{name}") == {record.size}, "the size of {name} differs"')
        for member in library.flat_fields(record):
            if member.bit_width is None:
                what = f"{name}.{member.name}"
                at = f'ffi.offsetof("{name}", "{member.name}") == {member.offset}'
                lines.append(f'assert {at}, "the offset of {what} differs"')
    return "\n".join(lines) + "\n"


def declarations(library: Manifest, names: frozenset[str] | None) -> str:
    """The cdef: what C takes, and the constants that cffi can hold."""
    packed = [record.name for record in emit.records_in_order(library, names) if record.packed]
    if packed:
        raise InputError(
            f"a cdef cannot say that {', '.join(packed)} is packed; write it by hand with "
            "`ffi.cdef(..., packed=True)` and name the others with --name"
        )
    lines = ["// Written by `hotfire abi emit`."]
    for name, constant in sorted(library.constants.items()):
        if isinstance(constant.value, int) and (names is None or name in names):
            lines.append(f"#define {name} {constant.value}")
    lines += c.body(library, names)
    return "\n".join(lines) + "\n"
