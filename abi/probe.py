"""A compiled probe as arbiter: the system's C compiler says whether a finding is true.

For each finding that gates, one C program asks for the number or the prototype that the finding
is about. libclang and the compiler must agree with the library's side, and not with the mirror's.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hotfire.abi.ctype import Type, parse_type
from hotfire.abi.emit import c
from hotfire.abi.manifest import Manifest, Record
from hotfire.abi.sources import Reading
from hotfire.errors import InputError
from hotfire.verdict import Finding

_NUMBER = re.compile(r"-?\d+")


def confirm(
    findings: Iterable[Finding],
    mirror: Manifest,
    library: Manifest,
    headers: Sequence[Path],
    reading: Reading,
    compiler: str = "cc",
) -> dict[int, bool]:
    """Whether each gate finding holds, by its index; findings that no C can ask are left out.

    Args:
        findings: of the mirror against the library.
        mirror: what was written.
        library: the manifest of the headers.
        headers: the files themselves.
        reading: the include folders and defines that they were read with.
        compiler: the C compiler to ask, for the same target.

    Raises:
        InputError: if the compiler cannot be run, or does not take the headers.
    """
    asked = [
        (index, condition)
        for index, found in enumerate(findings)
        if found.severity.gates
        for condition in [_condition(found, mirror, library)]
        if condition
    ]
    flags = [f"-I{folder}" for folder in reading.include]
    flags += [f"-D{define}" for define in reading.defines]
    flags += [f"-I{folder}" for folder in dict.fromkeys(h.resolve().parent for h in headers)]
    source = "".join(f'#include "{header.resolve()}"\n' for header in headers)
    source += "#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n"
    errors = _errors(source, flags, compiler)
    if errors:
        raise InputError(f"{compiler} does not take {headers[0]}: {errors[0]}")
    first = source.count("\n") + 1
    lines = [f'_Static_assert({condition}, "");' for _, condition in asked]
    wrong = set(_error_lines(_errors(source + "\n".join(lines), flags, compiler)))
    return {index: first + at not in wrong for at, (index, _) in enumerate(asked)}


def _errors(source: str, flags: Sequence[str], compiler: str) -> list[str]:
    """The error lines of a compilation, without code generation."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.c"
        path.write_text(source)
        command = [compiler, "-std=gnu11", "-w", "-fsyntax-only", *flags, str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise InputError(f"expected a C compiler, cannot run {compiler}: {error}") from error
        return [line for line in done.stderr.splitlines() if "error:" in line]


def _error_lines(errors: Iterable[str]) -> Iterator[int]:
    for error in errors:
        match = re.match(r".*?probe\.c:(\d+):", error)
        if match:
            yield int(match[1])


def _condition(found: Finding, mirror: Manifest, library: Manifest) -> str:
    """C that is true if the library is as the finding says and the mirror is not; "" if none is."""
    subject = found.subject
    called = subject.get("record", "")
    record = library.records.get(library.record_names.get(called, called))
    if found.rule == "BY_VALUE_ABI" and record is not None:
        sized = f"sizeof({c.tag(record)})"
        same = c.same_prototype(library, subject["function"])
        return f"{sized} == {_number(subject['library'])}" + (f" && ({same})" if same else "")
    if record is not None:
        return _about_record(found, record, library)
    if found.rule in ("ENUM_VALUE", "CONSTANT") and _is_number(subject.get("library", "")):
        name = subject["constant"]
        return f"({name}) == ({subject['library']}) && ({name}) != ({subject['mirror']})"
    if found.rule == "TYPEDEF":
        return _other_type(subject["typedef"], parse_type(subject["mirror"]), library)
    function = mirror.functions.get(subject.get("function", ""))
    if function is not None and found.rule in _ABOUT_TYPES:
        linked = library.redirects.get(function.name, function.name)
        name = linked if linked in library.functions else function.name
        return _other_type(name, function.type, library)
    return ""


_ABOUT_TYPES = ("FN_ARGC", "FN_ARG_TYPE", "FN_RET_TYPE", "FN_VARIADIC", "CALLBACK")


def _other_type(what: str, mine: Type, library: Manifest) -> str:
    """That something of the library's is not of the mirror's type, if C can name that type here."""
    if not _speakable(mine, library):
        return ""
    wanted = c.declare(library, mine, "")
    return f"!__builtin_types_compatible_p(__typeof__({what}), __typeof__({wanted}))"


def _speakable(of: Type, library: Manifest) -> bool:
    """Whether every record and enum in a type has the same name in the library's headers."""
    if of.is_record:
        return of.name in library.records and "." not in of.name
    if of.kind == "enum":
        return of.name in library.enums and "." not in of.name
    parts = [of.to] if of.to is not None else []
    return all(_speakable(part, library) for part in [*parts, *(of.args or ())])


def _about_record(found: Finding, record: Record, library: Manifest) -> str:
    subject, name = found.subject, c.tag(record)
    member = next((m for m in library.flat_fields(record) if m.name == subject.get("field")), None)
    if member is None:
        asked = {"RECORD_ALIGN": f"_Alignof({name})"} | dict.fromkeys(
            ("RECORD_SIZE", "RECORD_STRIDE"), f"sizeof({name})"
        )
        sizes = _number(subject.get("library", "")), _number(subject.get("mirror", ""))
        what = asked.get(found.rule, "")
        return f"{what} == {sizes[0]} && {what} != {sizes[1]}" if what else ""
    if member.bit_width is not None:
        # C has no address of a bitfield.
        return ""
    place, width = f"offsetof({name}, {member.name})", f"sizeof((({name} *)0)->{member.name})"
    if found.rule == "FIELD_OFFSET":
        return f"{place} == {subject['library']} && {place} != {subject['mirror']}"
    if found.rule == "FIELD_WIDTH":
        theirs, mine = (_NUMBER.findall(subject[s].rpartition("(")[2])[0] for s in _SIDES)
        return f"{width} == {theirs} && {width} != {mine}"
    if found.rule == "FIELD_MISSING":
        return f"{place} == {member.offset}"
    if found.rule in ("FIELD_TYPE", "CALLBACK"):
        return _other_type(f"(({name} *)0)->{member.name}", parse_type(subject["mirror"]), library)
    return ""


_SIDES = ("library", "mirror")


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _number(text: str) -> str:
    match = _NUMBER.match(text)
    return match[0] if match else "-1"
