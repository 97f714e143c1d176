"""A stripped library's record sizes, told by what its functions write.

A function such as `lib_default_params()` returns a record by value: on x86-64, one of more than
16 bytes is written to an address that the caller passes. It is called twice, in a child process,
into memory of two patterns; a byte that keeps neither was written. The end of what is written
betrays the size, and the bytes that are not written its padding. This is evidence, not proof: a
function may leave a field alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotfire.abi import target as targets
from hotfire.abi.checks.base import Rule, finding
from hotfire.abi.manifest import Manifest, Record
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity

SPAN = 1 << 16
SECONDS = 60
IN_REGISTERS = 16
"""A record of at most this many bytes comes back in registers, and paints nothing."""

PAINTED_SIZE = Rule(
    "PAINTED_SIZE",
    "the library writes another record than the header describes",
    "take the header of the release that the library was built from",
)
PAINTED_HOLE = Rule(
    "PAINTED_HOLE",
    "the library left a field alone that the header has there",
    "look whether the field exists in the library's release",
)


@dataclass(frozen=True)
class Painted:
    """What a function wrote: the bytes up to `extent`, apart from the holes."""

    function: str
    extent: int
    holes: tuple[tuple[int, int], ...]


def candidates(header: Manifest) -> dict[str, str]:
    """Functions that take nothing and return a record through memory, with the record's name."""
    found = {}
    for name, function in sorted(header.functions.items()):
        record = header.record(function.type.target)
        if record is not None and function.type.args == () and record.size > IN_REGISTERS:
            found[name] = record.name
    return found


def paint(library: Path, functions: Sequence[str]) -> list[Painted]:
    """Calls functions of a library in a child process, and says what each wrote.

    Raises:
        InputError: if the machine is not x86-64, or the library cannot be loaded.
    """
    if not targets.host().startswith("x86_64-linux"):
        raise InputError("painting needs x86-64 Linux, where a result's address is an argument")
    if not library.is_file():
        raise InputError(f"expected a shared library, found no file {library}")
    folder = str(library.resolve().parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(
        filter(None, [folder, os.environ.get("LD_LIBRARY_PATH", "")])
    )
    found = []
    for function in functions:
        command = [
            sys.executable,
            "-m",
            "hotfire.abi.readers.paint",
            str(library.resolve()),
            function,
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, env=environment, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{function} did not return within {SECONDS} s") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [
                f"it ended with code {done.returncode}"
            ]
            raise InputError(f"{library.name}: {function} cannot be called: {said[-1]}")
        tree = json.loads(done.stdout.splitlines()[-1])
        found.append(Painted(function, tree["extent"], tuple(map(tuple, tree["holes"]))))
    return found


def compare(header: Manifest, painted: Iterable[Painted]) -> Iterator[Finding]:
    """What a library's writing says against the header's records."""
    names = candidates(header)
    for found in painted:
        record = header.records[names[found.function]]
        yield from _compare(header, record, found)


def _compare(header: Manifest, record: Record, found: Painted) -> Iterator[Finding]:
    fields = list(header.flat_fields(record))
    last = max(fields, key=lambda member: member.bit_offset)
    subject = {
        "record": record.name,
        "function": found.function,
        "mirror": str(record.size),
        "library": str(found.extent),
    }
    if found.extent > record.size or found.extent <= last.offset:
        larger = found.extent > record.size
        yield finding(
            PAINTED_SIZE,
            Severity.MEMORY_UNSAFE if larger else Severity.SILENT_WRONG,
            f"{found.function} writes {found.extent} bytes, the header's {record.name} has "
            f"{record.size}" + ("" if larger else f" and ends with {last.name} at {last.offset}"),
            record.location,
            **subject,
        )
        return
    for start, end in found.holes:
        for member in fields:
            first, past = member.offset, member.offset + header.width_of(member) // 8
            if start <= first and past <= end:
                yield finding(
                    PAINTED_HOLE,
                    Severity.INFO,
                    f"{found.function} does not write {record.name}.{member.name}",
                    record.location,
                    field=member.name,
                    **subject,
                )


def _written(library: ctypes.CDLL, name: str) -> tuple[int, list[tuple[int, int]]]:
    """The extent and the holes of what a function writes through its hidden argument."""
    seen = bytearray(SPAN)
    for pattern in (0xAA, 0x55):
        memory = (ctypes.c_ubyte * SPAN)(*([pattern] * SPAN))
        function = library[name]
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        function(ctypes.addressof(memory))
        for at, byte in enumerate(bytes(memory)):
            seen[at] |= byte != pattern
    extent = seen.rfind(1) + 1
    holes, at = [], 0
    while (start := seen.find(0, at, extent)) >= 0:
        at = seen.find(1, start, extent)
        holes.append((start, at))
    return extent, holes


def _main() -> None:
    from hotfire.abi.readers import child

    out = child.take_stdout()
    extent, holes = _written(ctypes.CDLL(sys.argv[1]), sys.argv[2])
    os.write(out, json.dumps({"extent": extent, "holes": holes}).encode())
    os._exit(0)


if __name__ == "__main__":
    _main()
