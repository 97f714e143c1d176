"""The GPU emulator's library: runs a kernel on the CPU and hands on what it reports.

`native/gpu/emulator/emulator.h` says what is reported.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from hotfire import lib
from hotfire.device import code_object
from hotfire.errors import InputError, LibraryError
from hotfire.props.provider import Fault

LIBRARY = "libhotfire_emulator.so"
WAVE_SIZES = (32, 64)

CDEF = (
    """
const char *hotfire_emulator_kernel(uint64_t index);
int32_t hotfire_emulator_configure(uint32_t wave_size, uint64_t seed);
void hotfire_emulator_buffer(const char *name, void *data, uint64_t n_bytes, int32_t writable);
int32_t hotfire_emulator_launch(const char *operation, uint32_t n_blocks, uint32_t block_size,
                                void **arguments);
const char *hotfire_emulator_rule(void);
const char *hotfire_emulator_message(void);
uint64_t hotfire_emulator_address(void);
"""
    + lib.MUTANTS_CDEF
)
"""What the emulator's header and native/core/mutants.h declare."""


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel may touch: an operand's name, address and extent."""

    name: str
    address: int
    n_bytes: int
    writable: bool


class Emulator:
    """The loaded library.

    Args:
        path: of the library, or None for the one that was built with this package.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or lib.path(LIBRARY)
        self._ffi: Any = cffi.FFI()
        self._ffi.cdef(CDEF)
        try:
            self.lib: Any = self._ffi.dlopen(str(self.path))
        except OSError as error:
            raise LibraryError(f"{self.path} cannot be loaded: {error}") from error
        self.launches = code_object.read(self.path).launches

    def kernels(self) -> list[str]:
        """Everything that can be launched, canaries included, sorted."""
        found: list[str] = []
        while (name := self.lib.hotfire_emulator_kernel(len(found))) != self._ffi.NULL:
            found.append(self._text(name))
        return sorted(found)

    def mutants(self) -> list[tuple[str, str, str]]:
        """(name, operation, what is wrong) of every planted fault."""
        found: list[tuple[str, str, str]] = []
        while (name := self.lib.hotfire_mutant_name(len(found))) != self._ffi.NULL:
            operation = self.lib.hotfire_mutant_operation(len(found))
            doc = self.lib.hotfire_mutant_doc(len(found))
            found.append((self._text(name), self._text(operation), self._text(doc)))
        return found

    def select_mutant(self, name: str) -> None:
        """Turns one planted fault on and all others off; "" turns all off.

        Raises:
            InputError: if there is none of that name.
        """
        if not self.lib.hotfire_mutant_select(name.encode()):
            known = ", ".join(each[0] for each in self.mutants())
            raise InputError(f"mutant {name!r} is not known; expected one of: {known}")

    def launch(
        self,
        kernel: str,
        n_blocks: int,
        block_size: int,
        arguments: Sequence[bytes],
        buffers: Sequence[Buffer],
        *,
        wave_size: int,
        seed: int = 0,
    ) -> None:
        """Runs a kernel to its end.

        Args:
            kernel: an operation, or a canary.
            n_blocks: the grid.
            block_size: threads a block, a multiple of the wave.
            arguments: each argument's bytes.
            buffers: what the kernel may touch.
            wave_size: 32 or 64.
            seed: of the order in which threads run; 0 is in turn.

        Raises:
            Fault: at the first thing that the emulator reports.
            InputError: if there is no such kernel, or it cannot be launched so.
        """
        ffi = self._ffi
        if not self.lib.hotfire_emulator_configure(wave_size, seed):
            raise InputError(f"a wave of {wave_size} is not emulated; expected 32 or 64")
        names = [ffi.new("char[]", each.name.encode()) for each in buffers]
        for each, name in zip(buffers, names, strict=True):
            address = ffi.cast("void *", each.address)
            self.lib.hotfire_emulator_buffer(name, address, each.n_bytes, each.writable)
        held = [ffi.from_buffer(value) for value in arguments]
        pointers = ffi.new("void *[]", [ffi.cast("void *", value) for value in held])
        status = self.lib.hotfire_emulator_launch(kernel.encode(), n_blocks, block_size, pointers)
        if status < 0:
            raise InputError(f"the emulator has no kernel {kernel!r} for {block_size} threads")
        if status == 0:
            raise self._fault()

    def _fault(self) -> Fault:
        message = self._text(self.lib.hotfire_emulator_message())
        address = self.lib.hotfire_emulator_address()
        place = source_line(self.path, address) if address else ""
        return Fault(
            self._text(self.lib.hotfire_emulator_rule()), message + (f" ({place})" if place else "")
        )

    def _text(self, value: Any) -> str:
        return str(self._ffi.string(value).decode())


def source_line(path: Path, address: int) -> str:
    """`file.cpp:12` of the instruction before a return address, "" if the library does not say."""
    starts, places = _lines(path)
    at = bisect_right(starts, address - 1) - 1
    return places[at] if at >= 0 else ""


@cache
def _lines(path: Path) -> tuple[list[int], list[str]]:
    """The library's line table, sorted by address; an end of sequence has no place."""
    from elftools.elf.elffile import ELFFile

    rows: list[tuple[int, str]] = []
    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            files = program["file_entry"] if program else []
            first = 0 if unit["version"] >= 5 else 1
            for entry in program.get_entries() if program else ():
                state = entry.state
                if state is not None:
                    name = files[state.file - first].name.decode()
                    rows.append(
                        (state.address, "" if state.end_sequence else f"{name}:{state.line}")
                    )
    rows.sort(key=lambda row: row[0])
    return [address for address, _ in rows], [place for _, place in rows]
