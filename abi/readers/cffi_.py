"""cffi mirror to manifest: a cdef text, or a Python file or module that has an FFI object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hotfire.abi import target as targets
from hotfire.abi.ctype import BOOL, CHAR, VOID, Type, array, floating, integer, pointer
from hotfire.abi.manifest import Constant, Enum, Field, Function, Manifest, Record
from hotfire.errors import InputError

_TAGS = ("struct", "union", "enum")
_FLOATS = ("float", "double", "long double")


def read_text(text: str, name: str = "cdef") -> Manifest:
    """The manifest of a cdef text.

    Raises:
        InputError: if cffi does not accept it.
    """
    import cffi

    ffi = cffi.FFI()
    trees = keep_trees(ffi._parser)
    try:
        ffi.cdef(text)
        return manifest_of(ffi, argument_names(trees))
    except (cffi.FFIError, cffi.CDefError) as error:
        raise InputError(f"{name}: cffi refuses the cdef: {error}") from error


def read_files(files: Sequence[Path]) -> Manifest:
    """The manifest of cdef files, read as one text."""
    for file in files:
        if not file.is_file():
            raise InputError(f"expected a cdef, found no file {file}")
    return read_text("\n".join(file.read_text() for file in files), str(files[0]))


def read(mirror: str, *, python: str = "") -> Manifest:
    """The manifest of a cdef file, or of a `.py` file or module that has an FFI object.

    Args:
        mirror: the file's path or the module's dotted name.
        python: the interpreter that has what the module imports; "" for this one.
    """
    path = Path(mirror)
    if path.is_file() and path.suffix not in (".py", ".so"):
        return read_files([path])
    if path.suffix in (".py", ".so", ".txt", ".cdef", ".h") and not path.is_file():
        raise InputError(f"expected a cffi mirror, found no file {mirror}")
    from hotfire.abi.readers import child

    return child.read("hotfire.abi.readers.cffi_", [mirror], f"cffi:{mirror}", python)


def from_ffi(ffi: Any) -> Manifest:
    """The manifest of an in-line FFI object of this process; argument names are not known."""
    return manifest_of(ffi, {})


def keep_trees(parser: Any) -> list[Any]:
    """A list that fills with the syntax trees that a cffi parser makes, for argument names."""
    trees: list[Any] = []
    parse = parser._parse

    def keep(text: str) -> Any:
        found = parse(text)
        trees.append(found[0])
        return found

    parser._parse = keep
    return trees


def argument_names(trees: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    """The names of each function's arguments; cffi itself forgets them."""
    from pycparser import c_ast  # type: ignore[import-untyped, unused-ignore]

    found: dict[str, tuple[str, ...]] = {}
    for tree in trees:
        for node in tree.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
                params = node.type.args.params if node.type.args else ()
                found[node.name] = tuple(getattr(p, "name", None) or "" for p in params)
    return found


class _Reader:
    """Turns cffi's types into ours, and keeps the records and enums that it meets."""

    def __init__(self, ffi: Any) -> None:
        self.ffi = ffi
        self.records: dict[str, Record] = {}
        self.enums: dict[str, Enum] = {}
        self.names: dict[Any, str] = {}
        declared = getattr(getattr(ffi, "_parser", None), "_declarations", {})
        keys = (key.split(" ") for key in declared)
        self.tags = {key[1] for key in keys if key[0] in _TAGS}

    def type_of(self, ctype: Any, owner: str = "") -> Type:
        """One type; `owner` names a record without a name."""
        kind = ctype.kind
        if kind == "void":
            return VOID
        if kind == "pointer":
            return pointer(self.type_of(ctype.item, owner))
        if kind == "array":
            return array(self.type_of(ctype.item, owner), ctype.length)
        if kind == "function":
            return self._function(ctype, owner)
        if kind in ("struct", "union"):
            return self._record(ctype, owner)
        if kind == "enum":
            return self._enum(ctype, owner)
        return self._primitive(ctype)

    def of_signature(self, function: Any) -> Type:
        """A function as cffi's parser has it, for one whose records the compiler fills in."""
        args = tuple(self._of_model(arg) for arg in function.args)
        returns = self._of_model(function.result)
        return Type("function", to=returns, args=args, variadic=bool(function.ellipsis))

    def _of_model(self, model: Any) -> Type:
        if hasattr(model, "totype"):
            return pointer(self._of_model(model.totype))
        if getattr(model, "partial", False):
            self.records.setdefault(model.name, Record(model.name, model.kind, opaque=True))
            return Type(model.kind, name=model.name)
        with self.ffi._lock:
            return self.type_of(self.ffi._get_cached_btype(model))

    def _primitive(self, ctype: Any) -> Type:
        name, size = ctype.cname, self.ffi.sizeof(ctype)
        if name == "_Bool":
            return BOOL
        if name == "char":
            return CHAR
        if name in _FLOATS:
            return floating(size)
        if "Complex" in name:
            return Type("bytes", size)
        return integer(size, int(self.ffi.cast(ctype, -1)) < 0)

    def _function(self, ctype: Any, owner: str) -> Type:
        args = tuple(self.type_of(arg, owner) for arg in ctype.args)
        # A function pointer is `function` to cffi, which hides the pointer.
        found = Type(
            "function",
            to=self.type_of(ctype.result, owner),
            args=args,
            variadic=ctype.ellipsis,
        )
        return pointer(found)

    def _name(self, ctype: Any, owner: str) -> str:
        if ctype not in self.names:
            name = str(ctype.cname)
            for word in ("struct ", "union ", "enum "):
                name = name.removeprefix(word)
            unnamed = "$" in name
            self.names[ctype] = owner if owner and (unnamed or "." not in owner) else name
        return self.names[ctype]

    def _record(self, ctype: Any, owner: str) -> Type:
        name = self._name(ctype, owner)
        found = Type(ctype.kind, name=name)
        if name in self.records:
            return found
        self.records[name] = Record(name, ctype.kind, opaque=True)
        try:
            members = ctype.fields
        except AttributeError:
            # In a build script, one that `...` leaves to the C compiler.
            members = None
        if members is None:
            return found
        fields = []
        packed = False
        for index, (member, place) in enumerate(members):
            of = self.type_of(place.type, f"{name}.{member or f'anonymous{index + 1}'}")
            bits = place.bitsize if place.bitsize >= 0 else None
            first = place.offset * 8 + (place.bitshift if bits is not None else 0)
            fields.append(Field(member, of, first, bits))
            sized = place.type.kind != "array" or place.type.length is not None
            if bits is None and sized and place.offset % self.ffi.alignof(place.type):
                packed = True
        self.records[name] = Record(
            name,
            ctype.kind,
            self.ffi.sizeof(ctype),
            self.ffi.alignof(ctype),
            tuple(fields),
            packed,
            tagged=name in self.tags,
        )
        return found

    def _enum(self, ctype: Any, owner: str) -> Type:
        name = self._name(ctype, owner)
        if name not in self.enums:
            signed = int(self.ffi.cast(ctype, -1)) < 0
            values = tuple((label, value) for label, value in ctype.relements.items())
            ordered = tuple(sorted(values, key=lambda item: item[1]))
            base = integer(self.ffi.sizeof(ctype), signed)
            self.enums[name] = Enum(name, base, ordered, tagged=name in self.tags)
        return Type("enum", name=name)


Declared = tuple[str, str, Callable[[], Type]]
"""A kind (struct, union, enum, typedef, function), a name, and how to get its type."""


def _inline(ffi: Any, reader: _Reader) -> Iterator[Declared]:
    """What an in-line FFI object declares: tags first, as cffi calls a struct by its typedef."""
    import cffi

    found = ffi._parser._declarations

    def function(key: str) -> Type:
        try:
            with ffi._lock:
                return reader.type_of(ffi._get_cached_btype(found[key][0]))
        except cffi.VerificationMissing:
            return pointer(reader.of_signature(found[key][0]))

    def named(text: str, name: str) -> Type:
        return reader.type_of(ffi.typeof(text), name)

    for key in sorted(found, key=lambda key: (key.partition(" ")[0] not in _TAGS, key)):
        word, _, name = key.partition(" ")
        if "$" in name:
            continue
        if word in _TAGS:
            yield word, name, partial(named, key, name)
        elif word == "typedef":
            yield word, name, partial(named, name, name)
        elif word == "function":
            yield word, name, partial(function, key)


def _compiled(ffi: Any, lib: Any, reader: _Reader) -> Iterator[Declared]:
    """What a compiled FFI object (API mode, or ABI mode out of line) declares."""

    def named(text: str, name: str) -> Type:
        return reader.type_of(ffi.typeof(text), name)

    def function(name: str) -> Type:
        return reader.type_of(ffi.typeof(getattr(lib, name)))

    typedefs, structs, unions = ffi.list_types()
    for word, names in (("struct", structs), ("union", unions), ("typedef", typedefs)):
        for name in names:
            text = name if word == "typedef" else f"{word} {name}"
            yield word, name, partial(named, text, name)
    for name in dir(lib) if lib is not None else ():
        # Reading a variable or a constant gives a number; only functions are ctypes.
        if not isinstance(getattr(lib, name), int | float | bytes):
            yield "function", name, partial(function, name)


def _constants(ffi: Any, lib: Any) -> dict[str, int]:
    if hasattr(ffi, "_parser"):
        known = ffi._parser._int_constants
        return {name: value for name, value in known.items() if isinstance(value, int)}
    values = {name: getattr(lib, name) for name in dir(lib)} if lib is not None else {}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def manifest_of(ffi: Any, names: dict[str, tuple[str, ...]], lib: Any = None) -> Manifest:
    """What an FFI object declares.

    Args:
        ffi: in line, or compiled.
        names: of each function's arguments, as far as known.
        lib: the library object beside a compiled FFI, which alone knows the functions.
    """
    import cffi

    reader = _Reader(ffi)
    functions: dict[str, Function] = {}
    typedefs: dict[str, Type] = {}
    aliases: dict[str, set[str]] = {}
    notes: list[str] = []
    is_inline = hasattr(ffi, "_parser")
    for word, name, get in _inline(ffi, reader) if is_inline else _compiled(ffi, lib, reader):
        try:
            found = get()
        except (
            cffi.VerificationMissing,
            NotImplementedError,
            TypeError,
            getattr(ffi, "error", TypeError),
        ) as error:
            # A `...` in a build script leaves the layout to the C compiler: nothing to compare.
            notes.append(f"{word} {name} is left to the C compiler ({type(error).__name__})")
            continue
        if word == "function":
            functions[name] = _named(name, found.target, names.get(name, ()))
        elif word == "typedef" and (found.is_record or found.kind == "enum"):
            aliases.setdefault(found.name, set()).add(name)
        elif word == "typedef":
            typedefs[name] = found
    labels = {label for enum in reader.enums.values() for label, _ in enum.values}
    constants = {
        name: Constant(name, value)
        for name, value in _constants(ffi, lib).items()
        if name not in labels
    }
    return Manifest(
        source="cffi",
        target=targets.host(),
        pointer_size=ffi.sizeof("void *"),
        records={n: replace(r, aliases=_other(aliases, n)) for n, r in reader.records.items()},
        enums={n: replace(e, aliases=_other(aliases, n)) for n, e in reader.enums.items()},
        functions=functions,
        constants=constants,
        typedefs=typedefs,
        declared=frozenset([*reader.records, *reader.enums, *functions, *constants, *typedefs]),
        notes=tuple(notes),
    )


def _named(name: str, of: Type, names: tuple[str, ...]) -> Function:
    # `(void)` and `...` are parameters to the C parser.
    return Function(name, of, names[: len(of.args or ())])


def _other(aliases: dict[str, set[str]], name: str) -> tuple[str, ...]:
    return tuple(sorted(aliases.get(name, set()) - {name}))


def _ffi_of(module: Any) -> Any:
    """The FFI object of a module, under whatever name it has."""
    found = [
        value
        for value in vars(module).values()
        if hasattr(value, "typeof") and hasattr(value, "list_types") and not isinstance(value, type)
    ]
    if not found:
        raise InputError("the module has no cffi.FFI object at its top level")
    return found[0]


def _main() -> None:
    import cffi.cparser

    from hotfire.abi.readers import child, modules, recorder

    out = child.take_stdout()
    trees: list[Any] = []
    parse = cffi.cparser.Parser._parse

    def keep(parser: Any, text: str) -> Any:
        found = parse(parser, text)
        trees.append(found[0])
        return found

    patched: Any = cffi.cparser.Parser
    patched._parse = keep
    recorder.pretend_libraries_exist()
    any_ffi: Any = cffi.FFI
    any_ffi.dlopen = lambda _self, name, _flags=0: recorder.Library(name)
    module = modules.load(sys.argv[1])
    found = manifest_of(_ffi_of(module), argument_names(trees), getattr(module, "lib", None))
    child.give(out, found)


if __name__ == "__main__":
    _main()
