"""The cffi binding of the native library: loaded by name, compared with its own layout table.

The declarations are `hotfire.cdef`, written by hand, and those of the kernels, written from the
specs. The build compares both with the header and with the library's DWARF; loading compares them
with what the library's own compiler made of them, so that a library built from another header is
refused before the first call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import cffi

from hotfire.abi.manifest import Manifest
from hotfire.errors import InputError, LibraryError, StaleLibraryError
from hotfire.ref.c_header import kernel_cdef

CORE = "libhotfire_core.so"
MUTANTS = "libhotfire_mutants.so"

MUTANTS_CDEF = """
const char *hotfire_mutant_name(uint64_t index);
const char *hotfire_mutant_operation(uint64_t index);
const char *hotfire_mutant_doc(uint64_t index);
int32_t hotfire_mutant_select(const char *name);
"""


@dataclass(frozen=True)
class Library:
    """A loaded library: `ffi` makes C objects, `lib` has the functions."""

    ffi: Any
    lib: Any
    path: Path


def path(name: str = CORE) -> Path:
    """Where the build put a library.

    Raises:
        LibraryError: if it was not built.
    """
    found = Path(str(files("hotfire") / "_lib" / name))
    if not found.is_file():
        raise LibraryError(f"{name} was not built; run `make build` in the checkout")
    return found


def cdef() -> str:
    """The C declarations that this package believes in."""
    return (files("hotfire") / "hotfire.cdef").read_text(encoding="utf-8") + kernel_cdef()


@cache
def mirror() -> Manifest:
    """What cffi makes of these declarations."""
    from hotfire.abi.readers import cffi_

    return cffi_.read_text(cdef(), "hotfire.cdef")


@cache
def load(name: str = CORE) -> Library:
    """Loads a built library of that name; see `load_path`."""
    return load_path(path(name))


def load_path(where: Path) -> Library:
    """Loads a library and compares its own layout table with the binding.

    Raises:
        LibraryError: if it cannot be loaded.
        StaleLibraryError: if it was built from another header.
    """
    ffi = cffi.FFI()
    ffi.cdef(cdef() + (MUTANTS_CDEF if where.name == MUTANTS else ""))
    try:
        lib = ffi.dlopen(str(where))
    except OSError as error:
        raise LibraryError(f"{where} cannot be loaded: {error}") from error
    _refuse_stale(ffi, lib, where)
    return Library(ffi, lib, where)


def _refuse_stale(ffi: Any, lib: Any, where: Path) -> None:
    from hotfire.abi.layout import compare_layout

    if not hasattr(lib, "hotfire_abi_version"):
        raise LibraryError(f"{where} is no build of hotfire's library")
    if lib.hotfire_abi_version() != lib.HOTFIRE_ABI_VERSION:
        raise StaleLibraryError(
            f"{where} has ABI version {lib.hotfire_abi_version()}, this package expects "
            f"{lib.HOTFIRE_ABI_VERSION}; build it again with `make build`"
        )
    missing = [name for name in mirror().functions if not hasattr(lib, name)]
    if missing:
        raise StaleLibraryError(
            f"{where} lacks {', '.join(missing[:5])}, which this package declares; build it again "
            "with `make build`"
        )
    drift = compare_layout(mirror(), layout(ffi, lib))
    drift.sort(key=lambda found: "absent" in found.message)
    if drift:
        listed = "; ".join(found.message for found in drift[:5])
        raise StaleLibraryError(
            f"{where} was built from another header than this package ({len(drift)} differences: "
            f"{listed}); build it again with `make build`"
        )


def layout(ffi: Any, lib: Any) -> Iterator[tuple[str, str, int, int, int]]:
    """The library's own layout table: name, member, offset, size, kind, as hotfire.h says."""
    index = 0
    while (entry := lib.hotfire_layout(index)) != ffi.NULL:
        yield (
            ffi.string(entry.name).decode(),
            ffi.string(entry.member).decode(),
            entry.offset,
            entry.size,
            entry.kind,
        )
        index += 1


@contextmanager
def context(library: Library, isa: int, n_threads: int = 1) -> Iterator[Any]:
    """A `hotfire_exec` on a context that runs one instruction set on so many threads.

    Raises:
        InputError: if an argument is out of range; with the library's words.
        LibraryError: if the library refuses otherwise, for instance because the machine lacks it.
    """
    ffi, lib = library.ffi, library.lib
    params = ffi.new(
        "hotfire_context_params *",
        {
            "struct_size": ffi.sizeof("hotfire_context_params"),
            "abi_version": lib.HOTFIRE_ABI_VERSION,
            "backend": lib.HOTFIRE_BACKEND_CPU,
            "isa": isa,
            "n_threads": n_threads,
        },
    )
    handle = ffi.new("hotfire_context **")
    status = lib.hotfire_context_create(params, handle)
    if status != lib.HOTFIRE_STATUS_OK:
        text = ffi.string(lib.hotfire_context_error(ffi.NULL)).decode(errors="replace")
        raise (InputError if status == lib.HOTFIRE_STATUS_INVALID_ARGUMENT else LibraryError)(text)
    try:
        yield ffi.new(
            "hotfire_exec *",
            {"struct_size": ffi.sizeof("hotfire_exec"), "context": handle[0]},
        )
    finally:
        lib.hotfire_context_free(handle[0])
