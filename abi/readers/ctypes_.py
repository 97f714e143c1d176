"""ctypes mirror to manifest, without the library that it binds.

The mirror is imported in a child process under a recording loader (`recorder.py`); this file
is both the parent's call and, run as a program, the child.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hotfire.abi import target as targets
from hotfire.abi.ctype import BOOL, CHAR, VOID, Type, array, floating, integer, pointer
from hotfire.abi.manifest import Constant, Enum, Field, Function, Manifest, Record

_LETTERS = {"c": CHAR, "?": BOOL, "z": pointer(CHAR), "P": pointer(VOID), "O": pointer(VOID)}


def read(mirror: str, *, python: str = "") -> Manifest:
    """The manifest of a ctypes mirror.

    Args:
        mirror: a file, or a dotted module name.
        python: the interpreter that has what the mirror imports; "" for this one.

    Raises:
        InputError: if it cannot be imported.
    """
    from hotfire.abi.readers import child
    from hotfire.errors import InputError

    if mirror.endswith(".py") and not Path(mirror).is_file():
        raise InputError(f"expected a ctypes mirror, found no file {mirror}")
    return child.read("hotfire.abi.readers.ctypes_", [mirror], f"ctypes:{mirror}", python)


class _Reader:
    """Turns ctypes classes into types, and keeps the records that it meets."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.names: dict[Any, str] = {}

    def type_of(self, cls: Any) -> Type:
        """A ctypes class as a type; what is none becomes a `void *`, as ctypes cannot tell."""
        if cls is None:
            return VOID
        if not isinstance(cls, type) or hasattr(cls, "_dtype_"):
            return self._converter(cls)
        if issubclass(cls, ctypes.Structure | ctypes.Union):
            return self.record(cls)
        if issubclass(cls, ctypes.Array):
            return array(self.type_of(cls._type_), _length(cls))
        if issubclass(cls, ctypes._Pointer):
            return pointer(self.type_of(getattr(cls, "_type_", None)))
        if issubclass(cls, ctypes._CFuncPtr):  # type: ignore[attr-defined]
            return pointer(self._signature(cls))
        if issubclass(cls, ctypes._SimpleCData):
            return self._simple(cls)
        return self._converter(cls)

    def _converter(self, cls: Any) -> Type:
        """A class with `from_param`, such as numpy's ndpointer: it passes an address."""
        dtype = getattr(cls, "_dtype_", None)
        if dtype is None:
            return pointer(VOID)
        kinds = {"f": floating(dtype.itemsize), "b": BOOL}
        return pointer(kinds.get(dtype.kind, integer(dtype.itemsize, dtype.kind == "i")))

    def _simple(self, cls: Any) -> Type:
        letter, size = cls._type_, ctypes.sizeof(cls)
        if letter in _LETTERS:
            return _LETTERS[letter]
        if letter in "fdg":
            return floating(size)
        if letter == "Z":
            return pointer(integer(ctypes.sizeof(ctypes.c_wchar), True))
        return integer(size, letter.islower())

    def _signature(self, cls: Any) -> Type:
        args = getattr(cls, "_argtypes_", None)
        returns = self.type_of(getattr(cls, "_restype_", None))
        return Type("function", to=returns, args=None if args is None else self._args(args))

    def _args(self, args: Any) -> tuple[Type, ...]:
        found = (self.type_of(arg) for arg in args)
        return tuple(pointer(arg.target) if arg.kind == "array" else arg for arg in found)

    def record(self, cls: Any) -> Type:
        """Enters a Structure or a Union, and names it."""
        kind = "union" if issubclass(cls, ctypes.Union) else "struct"
        if cls in self.names:
            return Type(kind, name=self.names[cls])
        name = cls.__qualname__.rpartition("<locals>.")[2]
        if name in self.records:
            name = f"{cls.__module__}.{name}"
        self.names[cls] = name
        fields = tuple(self._fields(cls))
        if not fields and not ctypes.sizeof(cls):
            self.records[name] = Record(name, kind, opaque=True)
        else:
            self.records[name] = Record(
                name,
                kind,
                ctypes.sizeof(cls),
                ctypes.alignment(cls),
                fields,
                packed=any(
                    member.bit_width is None and member.offset % self._align(of)
                    for member, of in zip(fields, self._classes(cls), strict=True)
                ),
            )
        return Type(kind, name=name)

    def _classes(self, cls: Any) -> Iterator[Any]:
        for base in reversed(cls.__mro__):
            for entry in vars(base).get("_fields_", ()):
                yield entry[1]

    def _align(self, cls: Any) -> int:
        return ctypes.alignment(cls)

    def _fields(self, cls: Any) -> Iterator[Field]:
        for base in reversed(cls.__mro__):
            anonymous = set(vars(base).get("_anonymous_", ()))
            for entry in vars(base).get("_fields_", ()):
                name, of = entry[0], self.type_of(entry[1])
                place = getattr(cls, name)
                shown = "" if name in anonymous else name
                if len(entry) == 3:
                    # ctypes packs a bitfield's width and first bit into `size`.
                    first = place.offset * 8 + (place.size & 0xFFFF)
                    yield Field(shown, of, first, entry[2])
                else:
                    yield Field(shown, of, place.offset * 8)


def _length(cls: Any) -> int:
    return int(cls._length_)


def manifest_of(module: ModuleType) -> Manifest:
    """What an imported mirror declares: its records, functions, constants and aliases."""
    from hotfire.abi.readers import recorder

    reader = _Reader()
    aliases: dict[str, set[str]] = {}
    typedefs: dict[str, Type] = {}
    constants: dict[str, Constant] = {}
    enums: dict[str, Enum] = {}
    for scope in _modules(module):
        for name, value in list(vars(scope).items()):
            if name.startswith("__"):
                continue
            if isinstance(value, int) and not isinstance(value, bool | recorder.Guess):
                constants[name] = Constant(name, int(value))
            elif isinstance(value, float) or (isinstance(value, str) and name.isupper()):
                constants[name] = Constant(name, value)
            elif isinstance(value, type):
                _read_class(reader, name, value, aliases, typedefs, enums)
    functions = {f.name: f for library in recorder.LIBRARIES for f in _functions(reader, library)}
    for name, others in aliases.items():
        extra = tuple(sorted(others - {name}))
        if extra and name in reader.records:
            kept = reader.records[name]
            reader.records[name] = Record(
                kept.name,
                kept.kind,
                kept.size,
                kept.align,
                kept.fields,
                kept.packed,
                kept.opaque,
                extra,
            )
    names = [*reader.records, *enums, *functions, *constants, *typedefs]
    return Manifest(
        source="ctypes",
        target=targets.host(),
        pointer_size=ctypes.sizeof(ctypes.c_void_p),
        records=reader.records,
        enums=enums,
        functions=functions,
        constants=constants,
        typedefs=typedefs,
        declared=frozenset(names),
    )


def _modules(module: ModuleType) -> list[ModuleType]:
    """The mirror, and those modules of its package that it imported by name."""
    package = module.__name__.partition(".")[0]
    found = [module]
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        inner = sys.modules.get(name) if isinstance(name, str) else None
        if inner is not None and inner not in found and name.partition(".")[0] == package:
            found.append(inner)
    return found


def _read_class(
    reader: _Reader,
    name: str,
    value: type,
    aliases: dict[str, set[str]],
    typedefs: dict[str, Type],
    enums: dict[str, Enum],
) -> None:
    import enum

    if value.__module__ == "ctypes" and name == value.__name__:
        return
    if issubclass(value, enum.Enum):
        values = [(k, m.value) for k, m in value.__members__.items() if isinstance(m.value, int)]
        if values:
            base = integer(4, True)
            enums[value.__name__] = Enum(value.__name__, base, tuple(values), scoped=True)
        return
    if not issubclass(value, ctypes.Structure.__mro__[1]):
        return
    if value in (ctypes.Structure, ctypes.Union, ctypes.Array):
        return
    found = reader.type_of(value)
    if found.is_record:
        aliases.setdefault(found.name, set()).add(name)
    elif not (found.kind == "pointer" and found.target.is_record):
        typedefs[name] = found


def _functions(reader: _Reader, library: Any) -> Iterator[Function]:
    if library._is_system:
        return
    for name, bound in library._functions.items():
        if not bound.touched:
            continue
        args = None if bound.argtypes is None else reader._args(bound.argtypes)
        returns = reader.type_of(bound.restype)
        names = _argument_names(bound) if args else ()
        yield Function(
            name=name,
            type=Type("function", to=returns, args=args),
            names=names if args and len(names) == len(args) else (),
            returns_known=hasattr(bound, "restype_set"),
        )


def _argument_names(bound: Any) -> tuple[str, ...]:
    """The names in the Python stub that a decorator wrapped around the binding, if there is one."""
    stub = vars(bound).get("__wrapped__")
    if stub is None:
        return ()
    try:
        parameters = inspect.signature(stub).parameters.values()
    except (TypeError, ValueError):
        return ()
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in fixed)


def _main() -> None:
    from hotfire.abi.readers import child, modules, recorder

    out = child.take_stdout()
    recorder.install()
    child.give(out, manifest_of(modules.load(sys.argv[1])))


if __name__ == "__main__":
    _main()
