"""Turns the frames of glibc's backtrace_symbols into function names."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

_FRAME = re.compile(r"^(?P<path>[^(]+)\((?P<name>[^+)]*)\+0x(?P<offset>[0-9a-f]+)\)")
_PLUMBING = ("libhotfire_guard", "libc.so", "libffi", "_cffi_backend", "python", "_ctypes")


def symbolise(lines: Sequence[str]) -> tuple[str, ...]:
    """`path(name+0x12) [address]` -> `name+0x12 (library)`, innermost first.

    Frames of the interpreter and of the signal handler are left out. A function that is not
    exported is named from the library's symbol table, if it was not stripped.
    """
    frames: list[str] = []
    for line in lines:
        match = _FRAME.match(line)
        if not match or any(part in Path(match["path"]).name for part in _PLUMBING):
            continue
        offset = int(match["offset"], 16)
        name = match["name"] or _function_at(match["path"], offset)
        frames.append(f"{_demangled(name)} ({Path(match['path']).name})")
    return tuple(frames)


def _function_at(path: str, offset: int) -> str:
    for start, size, name in _functions(path):
        if start <= offset < start + size:
            return name
    return f"+0x{offset:x}"


@cache
def _functions(path: str) -> list[tuple[int, int, str]]:
    try:
        with Path(path).open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            if table is None:
                return []
            return [
                (symbol["st_value"], symbol["st_size"], symbol.name)
                for symbol in table.iter_symbols()
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
            ]
    except Exception:  # a name is a comfort: a broken symbol table must not hide the fault
        return []


def _demangled(name: str) -> str:
    """The C++ name in clear, by the C++ runtime's own demangler where there is one."""
    if not name.startswith("_Z"):
        return name
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        return name
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    clear = demangle(name.encode(), None, None, ctypes.byref(status))
    if not clear:
        return name
    text = ctypes.string_at(clear).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(clear))
    return text
