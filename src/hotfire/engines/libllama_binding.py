"""The cffi binding of libllama: declarations written by `hotfire abi emit`, checked on load.

`libllama.cdef` and `libggml.cdef` come from the llama.h and ggml-backend.h that llama-cpp-python
0.3.36 carries, which are those of libllama v0.5.0:

    hotfire abi emit llama.h --lang cffi --form declarations -I include -I ggml/include --name ...

cffi in ABI mode believes it blindly. So before the first call a library must export every declared
function, and what its functions that return a record write, in a child process, must end where the
declared record ends (`abi.readers.paint`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import cffi

from hotfire.abi.manifest import Manifest
from hotfire.abi.readers import cffi_, elf, paint
from hotfire.errors import InputError, StaleLibraryError

VARIABLE = "HOTFIRE_LIBLLAMA"
"""Environment variable: the folder of libllama and its ggml libraries."""
LLAMA, GGML = "libllama.cdef", "libggml.cdef"
ERROR_LEVEL = 4


@dataclass(frozen=True)
class Binding:
    """A loaded libllama.

    Args:
        ffi: makes C objects of libllama.
        lib: libllama's functions.
        ggml_ffi: makes C objects of libggml; the two do not mix.
        ggml: libggml's functions.
        path: of libllama.
        said: the last errors that it logged, newest last.
        keep: what must live as long as the library.
    """

    ffi: Any
    lib: Any
    ggml_ffi: Any
    ggml: Any
    path: Path
    said: deque[str]
    keep: Any

    def complaint(self) -> str:
        """What the library logged last, in one line."""
        return " ".join(" ".join(self.said).split())[-400:] or "it gave no reason"


def declarations(name: str) -> str:
    """The C declarations that this binding believes in: `LLAMA` or `GGML`."""
    return (files("hotfire.engines") / name).read_text(encoding="utf-8")


@cache
def mirror(name: str) -> Manifest:
    """What cffi makes of them."""
    return cffi_.read_text(declarations(name), name)


def library_in(folder: str) -> Path:
    """libllama in a folder: `libllama.so`, or one with a version in its name.

    Args:
        folder: "" for the one that `HOTFIRE_LIBLLAMA` names.

    Raises:
        InputError: if there is no folder, or none or several in it.
    """
    folder = folder or os.environ.get(VARIABLE, "")
    if not folder:
        raise InputError(f"expected lib=FOLDER or {VARIABLE}: the folder of libllama.so")
    found = sorted(path for path in Path(folder).glob("libllama*.so") if "common" not in path.name)
    if len(found) != 1:
        raise InputError(f"{folder}: expected one libllama*.so, found {len(found)}")
    return found[0].resolve()


@cache
def load(path: Path) -> Binding:
    """Loads a libllama, after it was checked.

    Raises:
        InputError: if it cannot be loaded or has no CPU backend.
        StaleLibraryError: if it is of another release than the declarations.
    """
    check(path)
    _refuse_mixture(path)
    ffi, ggml_ffi = cffi.FFI(), cffi.FFI()
    ffi.cdef(declarations(LLAMA))
    ggml_ffi.cdef(declarations(GGML))
    try:
        lib = ffi.dlopen(str(path))
        ggml = ggml_ffi.dlopen(str(_ggml(path)))
    except OSError as error:
        raise InputError(f"{path} cannot be loaded: {error}") from None
    said: deque[str] = deque(maxlen=4)

    def log(level: int, text: Any, _data: Any) -> None:
        if level == ERROR_LEVEL:
            said.append(ffi.string(text).decode(errors="replace"))

    callback = ffi.callback("void(enum ggml_log_level, char *, void *)", log)
    lib.llama_log_set(callback, ffi.NULL)
    ggml.ggml_backend_load_all_from_path(str(path.parent).encode())
    if not ggml.ggml_backend_reg_count():
        raise InputError(f"{path.parent} has no backend that this machine can run")
    lib.llama_backend_init()
    return Binding(ffi, lib, ggml_ffi, ggml, path, said, callback)


def _refuse_mixture(path: Path) -> None:
    """The dynamic linker takes a library of the same name that is already there, whatever it is.

    Raises:
        InputError: if another ggml is loaded in this process.
    """
    with Path("/proc/self/maps").open() as maps:
        loaded = {Path(line.split(maxsplit=5)[-1].strip()) for line in maps if "/" in line}
    for each in loaded:
        if each.name.startswith("libggml-base") and each.parent != path.parent:
            raise InputError(f"{each} is loaded already; use {path.name} in a process of its own")


def check(path: Path) -> None:
    """Compares a library with the declarations.

    Raises:
        StaleLibraryError: listing what differs.
    """
    wrong = list(_differences(path))
    if wrong:
        raise StaleLibraryError(
            f"{path} is not the libllama that {LLAMA} describes: {'; '.join(wrong[:5])}; emit the "
            "declarations again from its own llama.h"
        )


def _differences(path: Path) -> Iterator[str]:
    exported = _exports(path)
    for each in path.parent.glob("libggml*.so"):
        if "libggml-cpu" not in each.name:
            exported |= _exports(each)
    missing = sorted({*mirror(LLAMA).functions, *mirror(GGML).functions} - exported)
    if missing:
        yield f"it lacks {', '.join(missing[:5])}"
        return
    believed = mirror(LLAMA)
    painted = paint.paint(path, list(paint.candidates(believed)))
    yield from (found.message for found in paint.compare(believed, painted) if found.severity.gates)


def _exports(path: Path) -> set[str]:
    return set(elf.read(path).exports or ())


def _ggml(path: Path) -> Path:
    """libggml beside libllama: the one that registers backends."""
    found = [
        each
        for each in sorted(path.parent.glob("libggml*.so"))
        if "ggml_backend_load_all_from_path" in _exports(each)
    ]
    if not found:
        raise InputError(f"{path.parent} has no libggml.so beside {path.name}")
    return found[0]
