"""numpy structured dtypes to manifest: the dtypes at a module's top level, by variable name."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hotfire.abi import target as targets
from hotfire.abi.ctype import BOOL, CHAR, Type, array, floating, integer
from hotfire.abi.manifest import Field, Manifest, Record
from hotfire.errors import InputError


def read(mirror: str, *, python: str = "") -> Manifest:
    """The manifest of a file or module that has structured dtypes.

    Args:
        mirror: a file, or a dotted module name.
        python: the interpreter that has what it imports; "" for this one.

    Raises:
        InputError: if it cannot be imported.
    """
    from hotfire.abi.readers import child

    if mirror.endswith(".py") and not Path(mirror).is_file():
        raise InputError(f"expected a numpy mirror, found no file {mirror}")
    return child.read("hotfire.abi.readers.numpy_", [mirror], f"numpy:{mirror}", python)


def type_of(dtype: Any, name: str, records: dict[str, Record]) -> Type:
    """A dtype as a type; a structured one is entered as a record of that name."""
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        found = type_of(inner, name, records)
        for count in reversed(shape):
            found = array(found, int(count))
        return found
    if dtype.names is not None:
        return record_of(dtype, name, records)
    if dtype.kind == "b":
        return BOOL
    if dtype.kind in "iu":
        return integer(dtype.itemsize, dtype.kind == "i")
    if dtype.kind == "f":
        return floating(dtype.itemsize)
    if dtype.kind == "S":
        return array(CHAR, dtype.itemsize)
    return Type("bytes", dtype.itemsize)


def record_of(dtype: Any, name: str, records: dict[str, Record]) -> Type:
    """Enters a structured dtype; fields that lie on each other make it a union."""
    fields = []
    for member in dtype.names:
        of, offset = dtype.fields[member][:2]
        fields.append(Field(member, type_of(of, f"{name}.{member}", records), int(offset) * 8))
    overlap = len(fields) > 1 and all(member.bit_offset == 0 for member in fields)
    kind = "union" if overlap else "struct"
    align = int(dtype.alignment) if dtype.isalignedstruct else 1
    records[name] = Record(name, kind, int(dtype.itemsize), align, tuple(fields))
    return Type(kind, name=name)


def manifest_of(module: ModuleType) -> Manifest:
    """The structured dtypes of an imported module."""
    import numpy

    records: dict[str, Record] = {}
    seen: dict[int, str] = {}
    for name, value in list(vars(module).items()):
        if isinstance(value, numpy.dtype) and value.names is not None and id(value) not in seen:
            seen[id(value)] = name
            record_of(value, name, records)
    if not records:
        raise InputError("the module has no structured numpy dtype at its top level")
    return Manifest(
        source="numpy",
        target=targets.host(),
        pointer_size=ctypes.sizeof(ctypes.c_void_p),
        records=records,
        declared=frozenset(records),
    )


def _main() -> None:
    from hotfire.abi.readers import child, modules

    out = child.take_stdout()
    child.give(out, manifest_of(modules.load(sys.argv[1])))


if __name__ == "__main__":
    _main()
