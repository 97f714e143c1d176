"""What a side of a comparison can be, and how each is read: one word on the command line.

A side is `ctypes:`, `cffi:`, `numpy:` or `accessor:` and a file or module, `header:FILE`,
`dwarf:FILE`, `exports:FILE`, or a path whose name tells: `.h`, `.json`, `.so`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import ArgumentError
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from hotfire.abi.manifest import Manifest
from hotfire.errors import InputError

KINDS = ("header", "manifest", "dwarf", "exports", "ctypes", "cffi", "numpy", "accessor")
BINARIES = ("dwarf", "accessor")
"""Kinds that are searched for names, as they are too large to be read whole."""
_IMPORTED = ("ctypes", "cffi", "numpy")
_SUFFIXES = {".json": "manifest", ".o": "dwarf", ".so": "dwarf"}
_DEPTH = 10_000
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc")


@dataclass(frozen=True)
class Reading:
    """How headers and mirrors are read.

    Args:
        include: folders of included files.
        defines: `NAME` or `NAME=VALUE`.
        target: of headers; "" for this machine.
        language: of headers, c or c++.
        python: the interpreter for mirrors that are imported; "" for this one.
    """

    include: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    target: str = ""
    language: str = "c"
    python: str = ""


def split(side: str) -> tuple[str, str]:
    """The kind of a side and its path or module.

    Raises:
        InputError: if the kind cannot be told.
    """
    kind, colon, rest = side.partition(":")
    if colon and kind in KINDS:
        if not rest:
            raise InputError(f"expected a file or a module after {kind}:, got nothing")
        return kind, rest
    name = Path(side).name
    if name.endswith(_HEADERS):
        return "header", side
    for suffix, found in _SUFFIXES.items():
        if name.endswith(suffix) or (suffix == ".so" and ".so." in name):
            return found, side
    known = ", ".join(f"{kind}:" for kind in KINDS)
    raise InputError(
        f"cannot tell what {side!r} is; expected a .h, .json or .so file, "
        f"or one of {known} before it"
    )


@contextmanager
def told(what: object) -> Iterator[None]:
    """What the system refuses, and what nests beyond reason, as one error."""
    before = sys.getrecursionlimit()
    # Readers follow types from record to record; a chain of a thousand is no error.
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {what}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{what}: expected UTF-8 text, got other bytes") from error
    except (RecursionError, ArgumentError) as error:
        # ctypes, by which libclang is called, hides the first in the second.
        raise InputError(f"{what}: its types nest too deep to be read") from error
    finally:
        sys.setrecursionlimit(before)


def read(side: str, reading: Reading, names: Iterable[str] = ()) -> Manifest:
    """The manifest of one side.

    Args:
        side: as this module's first lines say.
        reading: how to read it.
        names: what the other side speaks of, so that only that is looked for.

    Raises:
        InputError: if it cannot be read.
    """
    with told(side):
        return _read(side, reading, names)


def _read(side: str, reading: Reading, names: Iterable[str]) -> Manifest:
    kind, rest = split(side)
    if kind in _IMPORTED:
        found: Manifest = import_module(f"hotfire.abi.readers.{kind}_").read(
            rest, python=reading.python
        )
        return found
    if kind == "accessor":
        from hotfire.abi.readers import accessor

        return accessor.read(rest, python=reading.python, names=names)
    if kind == "header":
        return read_headers([Path(rest)], reading, names)
    if kind == "manifest":
        return Manifest.read(Path(rest))
    if kind == "exports":
        return read_exports(Path(rest))
    from hotfire.abi.readers import dwarf

    wanted = frozenset(names)
    return dwarf.read(Path(rest), names=wanted or None)


def read_headers(headers: Sequence[Path], reading: Reading, names: Iterable[str] = ()) -> Manifest:
    """The manifest of headers that are included together."""
    from hotfire.abi.readers import header

    with told(", ".join(map(str, headers))):
        return header.read(
            headers,
            target=reading.target,
            include=reading.include,
            defines=reading.defines,
            language=reading.language,
            names=names,
        )


def read_exports(path: Path) -> Manifest:
    """What a library exports: from its ELF, or from a text file with one name a line.

    The text may also be what `nm -D` prints, and the path may be the side `exports:FILE`.

    Raises:
        InputError: if there is no such file, or it holds no name.
    """
    from hotfire.abi.readers import elf

    path = library_path(path)
    if path.suffix != ".txt":
        return elf.read(path)
    if not path.is_file():
        raise InputError(f"expected a list of symbols, found no file {path}")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names = {_symbol(line.split()) for line in lines if not line.lstrip().startswith("#")} - {""}
    if not names:
        raise InputError(f"{path}: expected one symbol a line, found none")
    return Manifest(source="exports", target="", exports=tuple(sorted(names)))


def _symbol(words: list[str]) -> str:
    """The name in a line, without its version; "" where `nm` says that it is only needed."""
    if not words or (len(words) > 1 and words[-2] in ("U", "w", "v")):
        return ""
    return words[-1].partition("@")[0]


def library_path(path: Path) -> Path:
    """The file of a library that was named as a path or as a side, `exports:FILE`."""
    kind, colon, rest = str(path).partition(":")
    return Path(rest) if colon and rest and kind in ("exports", "dwarf") else path


def with_exports(library: Manifest, exports: Manifest) -> Manifest:
    """A header's manifest that also knows what the built library exports and needs."""
    return replace(library, exports=exports.exports, needed=exports.needed)
