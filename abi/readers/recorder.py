"""Stands in for the shared libraries that a ctypes mirror loads, and notes what it binds.

`install()` replaces `ctypes.CDLL` and its relatives, so that a mirror can be imported where
its library does not exist: loading gives a `Library`, whose functions note `argtypes` and
`restype`. A file that looks like a shared library is said to exist. A call returns a zero.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import os
import re
from pathlib import Path
from typing import Any

_LIBRARY_FILE = re.compile(r"\.(so|dylib|dll)(\.[\d.]+)?$")
_SYSTEM = re.compile(r"^(lib)?(c|m|dl|pthread|stdc\+\+|gomp|kernel32|msvcrt|ucrtbase)[.\-]", re.I)

LIBRARIES: list[Library] = []


class Guess(int):
    """A number that came from a call that never happened; it is no constant of the mirror."""


class Function:
    """A function of a recorded library: what the mirror set on it."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.argtypes: Any = None
        self.restype: Any = ctypes.c_int
        self.errcheck: Any = None
        self.touched = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("argtypes", "restype"):
            object.__setattr__(self, name + "_set", True)
            object.__setattr__(self, "touched", True)
        object.__setattr__(self, name, value)

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        """A zero of the declared return type."""
        return _zero(self.restype)


def _zero(kind: Any) -> Any:
    """What a function of this type gives that does nothing: a zero, no text, an empty record."""
    if kind is None:
        return None
    if kind is ctypes.c_char_p:
        return b""
    if kind is ctypes.c_wchar_p:
        return ""
    try:
        if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
            # A null pointer would raise where the mirror looks at what it points to.
            return kind(kind._type_())
        zero = kind()
    except TypeError:
        return None
    value = getattr(zero, "value", zero)
    return Guess(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _in_dll(kind: Any, _library: Any, _name: str) -> Any:
    """A variable of a recorded library: a zero of its type."""
    return kind()


class Library:
    """A library that was asked for; any name can be looked up in it."""

    def __init__(self, name: Any = None, *_arguments: Any, **_named: Any) -> None:
        self._name = "" if name is None else os.fspath(name)
        self._handle = 0
        self._functions: dict[str, Function] = {}
        LIBRARIES.append(self)

    @property
    def _is_system(self) -> bool:
        base = Path(str(self._name)).name
        return not base or bool(_SYSTEM.match(base))

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str | int) -> Function:
        return self._functions.setdefault(str(name), Function(str(name)))


class Loader:
    """Stands in for `ctypes.cdll` and its relatives."""

    def __init__(self, kind: Any = None) -> None:
        pass

    def __getattr__(self, name: str) -> Library:
        if name.startswith("_"):
            raise AttributeError(name)
        return Library(name)

    def __getitem__(self, name: str) -> Library:
        return Library(name)

    def LoadLibrary(self, name: str) -> Library:  # noqa: N802 - ctypes calls it so
        """What ctypes calls it."""
        return Library(name)


def install() -> None:
    """Puts the recorder in the place of the real loaders, in this process."""
    setters: Any = ctypes
    for name in ("CDLL", "PyDLL", "WinDLL", "OleDLL"):
        setattr(setters, name, Library)
    for name in ("cdll", "windll", "oledll", "pydll"):
        setattr(setters, name, Loader())
    setters.CFUNCTYPE = _recording_prototype(ctypes.CFUNCTYPE)
    setters.PYFUNCTYPE = _recording_prototype(ctypes.PYFUNCTYPE)
    setters.cast = _casting(ctypes.cast)
    _replace_in_dll()
    if not hasattr(ctypes, "WINFUNCTYPE"):
        setters.WINFUNCTYPE = setters.CFUNCTYPE
    if not hasattr(os, "add_dll_directory"):
        os.add_dll_directory = lambda _path: None  # type: ignore[attr-defined, unused-ignore]
    ctypes.util.find_library = lambda name: f"lib{name}.so"
    pretend_libraries_exist()


def _casting(cast: Any) -> Any:
    """`ctypes.cast` that takes a recorded function for a null pointer."""

    def new(value: Any, kind: Any) -> Any:
        return cast(None if isinstance(value, Function) else value, kind)

    return new


def _replace_in_dll() -> None:
    """Lets `c_int.in_dll(library, "name")` find variables in recorded libraries.

    The method belongs to types that cannot be assigned to; their own tables can be.
    """
    for base in (
        ctypes._SimpleCData,
        ctypes.Structure,
        ctypes.Union,
        ctypes.Array,
        ctypes._Pointer,
    ):
        for kind in type.mro(type(base)):
            if "in_dll" in vars(kind):
                table = gc.get_referents(vars(kind))[0]
                table["in_dll"] = _in_dll
                ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _recording_prototype(make: Any) -> Any:
    """`prototype(("name", library))` binds too: note it instead of looking it up."""

    def prototype(restype: Any, *argtypes: Any, **flags: Any) -> Any:
        base = make(restype, *argtypes, **flags)

        def new(cls: Any, *arguments: Any) -> Any:
            if arguments and isinstance(arguments[0], tuple):
                name, library = arguments[0]
                function = library[name]
                function.argtypes, function.restype = list(argtypes), restype
                return function
            return base.__new__(cls, *arguments)

        return type(base)(
            "CFunctionType",
            (base,),
            {"_flags_": base._flags_, "_restype_": restype, "_argtypes_": argtypes, "__new__": new},
        )

    return prototype


def pretend_libraries_exist() -> None:
    """Answers that a file exists if its name is that of a shared library."""
    real_exists, real_is_file = os.path.exists, os.path.isfile
    path_exists, path_is_file = Path.exists, Path.is_file

    def looks_like_one(path: Any) -> bool:
        return bool(_LIBRARY_FILE.search(str(path)))

    os.path.exists = lambda path: looks_like_one(path) or real_exists(path)
    os.path.isfile = lambda path: looks_like_one(path) or real_is_file(path)
    setters: Any = Path
    setters.exists = lambda self, **rest: looks_like_one(self) or path_exists(self, **rest)
    setters.is_file = lambda self, **rest: looks_like_one(self) or path_is_file(self, **rest)
