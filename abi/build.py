"""The build's own check: `python -m hotfire.abi.build header|dwarf`, run by CMake.

`header` compares the binding's cdef with the headers that the library is compiled from, and
writes what the library needs to describe itself. `dwarf` compares the cdef and the headers'
manifest with what the compiler made of them. Drift prints a table and exits with 1.

It runs in the isolated environment of the build: nothing beyond cffi, libclang and pyelftools.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hotfire.abi import layout, manifest
from hotfire.abi.checks import compare
from hotfire.abi.files import write
from hotfire.abi.readers import cffi_, dwarf, header
from hotfire.errors import HotfireError, LayoutDriftError
from hotfire.verdict import Finding

HEADER_REMEDY = (
    "change the cdef so that it says what the header says, or take the header's change back"
)
DWARF_REMEDY = (
    "compile the library from the headers that the cdef was compared with, with the same defines"
)


def table(findings: Sequence[Finding]) -> str:
    """Findings as plain text in columns: rule, where, mirror, library, message."""
    rows = [("rule", "where", "mirror", "library", "message")]
    for found in findings:
        subject = found.subject
        names = ("record", "field", "function", "argument", "constant", "enum", "typedef")
        where = ".".join(dict.fromkeys(subject[name] for name in names if name in subject))
        rows.append(
            (
                found.rule,
                where,
                subject.get("mirror", ""),
                subject.get("library", ""),
                found.message,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    )


def drift(mirror: manifest.Manifest, library: manifest.Manifest) -> list[Finding]:
    """What must fail a build: every finding that gates, and whatever the mirror leaves out.

    Our own binding has no reason to be incomplete: an enum value or a function that is only in
    the header is drift too, so that a struct added to the header joins by itself.
    """
    ours = ("FN_UNBOUND", "ENUM_NEW", "RECORD_UNMIRRORED", "CONSTANT_NEW", "ENUM_BASE")
    found = [f for f in compare(mirror, library) if f.severity.gates or f.rule in ours]
    return found + unmirrored(mirror, library)


def unmirrored(mirror: manifest.Manifest, library: manifest.Manifest) -> list[Finding]:
    """Records and enums that the library's header declares and the mirror has no word of."""
    from hotfire.abi.checks.base import finding
    from hotfire.abi.checks.presence import RECORD_UNMIRRORED
    from hotfire.verdict import Severity

    if not library.complete:
        return []
    known = {*mirror.record_names, *mirror.enums}
    return [
        finding(
            RECORD_UNMIRRORED,
            Severity.LATENT,
            f"the header declares {name}, the mirror does not",
            table[name].location,
            record=name,
            mirror="absent",
            library="declared",
        )
        for table in (library.records, library.enums)
        for name in sorted(table)
        if name in library.declared and name not in known
    ]


def check_header(arguments: argparse.Namespace) -> None:
    """Compares the cdef with the headers, then writes the manifest and the layout table."""
    include = [Path(folder) for folder in arguments.include]
    headers = [Path(file) for file in arguments.header]
    found = header.read(headers, include=include, defines=arguments.define)
    mirror = cffi_.read_files([Path(file) for file in arguments.cdef])
    _require(drift(mirror, found), "the cdef and the header", HEADER_REMEDY)
    if arguments.manifest:
        write(Path(arguments.manifest), manifest.dump(found))
    if arguments.layout:
        write(Path(arguments.layout), layout.initialisers(found))


def check_dwarf(arguments: argparse.Namespace) -> None:
    """Compares the built library's debug information with the cdef and the headers' manifest."""
    mirror = cffi_.read_files([Path(file) for file in arguments.cdef])
    sides = [("the cdef", mirror)]
    if arguments.manifest:
        sides.append(("the header", manifest.Manifest.read(Path(arguments.manifest))))
    names = {name for _, side in sides for name in side.names()}
    library = dwarf.read(Path(arguments.library), names=names)
    if not library.records:
        raise HotfireError(f"{arguments.library}: its debug information names none of the structs")
    for name, side in sides:
        _require(drift(side, library), f"{name} and the built library", DWARF_REMEDY)


def _require(found: Sequence[Finding], what: str, remedy: str) -> None:
    if found:
        raise LayoutDriftError(f"{what} differ:\n\n{table(found)}\n\n{remedy}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hotfire.abi.build", description=__doc__)
    commands = parser.add_subparsers(required=True)
    head = commands.add_parser("header", help="compare the cdef with the headers")
    head.add_argument("--header", action="append", required=True)
    head.add_argument("-I", dest="include", action="append", default=[])
    head.add_argument("-D", dest="define", action="append", default=[])
    head.add_argument("--cdef", action="append", required=True)
    head.add_argument("--manifest", help="where to write the headers' manifest")
    head.add_argument("--layout", help="where to write the layout table's lines")
    head.set_defaults(run=check_header)
    built = commands.add_parser("dwarf", help="compare the built library with both")
    built.add_argument("--library", required=True)
    built.add_argument("--cdef", action="append", required=True)
    built.add_argument("--manifest", help="the headers' manifest")
    built.set_defaults(run=check_dwarf)
    return parser


def run(words: Sequence[str] | None = None) -> int:
    """Runs one check; 0 if all agree, 1 on drift, 2 on bad input."""
    arguments = _parser().parse_args(words)
    try:
        arguments.run(arguments)
    except LayoutDriftError as error:
        print(f"hotfire: {error}", file=sys.stderr)
        return 1
    except HotfireError as error:
        print(f"hotfire: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def main() -> NoReturn:
    """The program: exits with what `run` returns."""
    sys.exit(run())


if __name__ == "__main__":
    main()
