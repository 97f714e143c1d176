"""A library's own account of its layout: how it is written at build time, and compared at import.

The table's C++ lines name every struct and enum of a header, and leave the numbers to the
compiler that builds the library, so that a stale library tells on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hotfire.abi.checks.base import Rule, finding
from hotfire.abi.checks.constants import ENUM_VALUE
from hotfire.abi.checks.fields import FIELD_OFFSET, FIELD_WIDTH
from hotfire.abi.checks.presence import FIELD_EXTRA, FIELD_MISSING
from hotfire.abi.checks.records import RECORD_SIZE
from hotfire.abi.manifest import Manifest
from hotfire.verdict import Finding, Severity

RECORD, FIELD, CONSTANT = 0, 1, 2
Entry = tuple[str, str, int, int, int]


def initialisers(header: Manifest) -> str:
    """One C++ initialiser of `hotfire_layout_entry` a line, for every struct and enum declared."""
    lines = []
    for name in sorted(header.records):
        record = header.records[name]
        if record.opaque or name not in header.declared:
            continue
        lines.append(f'{{"{name}", "", 0, sizeof({name}), HOTFIRE_LAYOUT_RECORD, 0}},')
        for member in record.fields:
            if not member.name or member.bit_width is not None:
                continue
            where = f"offsetof({name}, {member.name}), sizeof({name}::{member.name})"
            lines.append(f'{{"{name}", "{member.name}", {where}, HOTFIRE_LAYOUT_FIELD, 0}},')
    for name in sorted(header.enums):
        if name not in header.declared:
            continue
        for label, _ in header.enums[name].values:
            lines.append(
                f'{{"{name}", "{label}", {label}, sizeof({name}), HOTFIRE_LAYOUT_CONSTANT, 0}},'
            )
    return "\n".join(lines) + "\n"


def compare_layout(mirror: Manifest, entries: Iterable[Entry]) -> list[Finding]:
    """What a loaded library's table says otherwise than the mirror.

    Args:
        mirror: the binding's manifest.
        entries: (name, member, offset, size, kind) as `hotfire_layout()` lists them.
    """
    found = list(entries)
    sizes = {name: size for name, _, _, size, kind in found if kind == RECORD}
    places = {(n, member): (at, size) for n, member, at, size, kind in found if kind == FIELD}
    values = {member: at for _, member, at, _, kind in found if kind == CONSTANT}
    return [
        *_records(mirror, sizes),
        *_fields(mirror, sizes, places),
        *_values(mirror, values),
    ]


def _say(rule: Rule, severity: Severity, mine: object, theirs: object, **subject: str) -> Finding:
    where = ".".join(subject.values())
    message = f"{where} is {theirs} in the library, the binding says {mine}"
    return finding(rule, severity, message, mirror=str(mine), library=str(theirs), **subject)


def _records(mirror: Manifest, sizes: dict[str, int]) -> Iterator[Finding]:
    for name, record in sorted(mirror.records.items()):
        if not record.opaque and sizes.get(name) != record.size:
            theirs = f"{sizes[name]} bytes" if name in sizes else "absent"
            mine = f"{record.size} bytes"
            yield _say(RECORD_SIZE, Severity.MEMORY_UNSAFE, mine, theirs, record=name)
    for name in sorted(set(sizes) - set(mirror.records)):
        yield _say(
            RECORD_SIZE, Severity.MEMORY_UNSAFE, "absent", f"{sizes[name]} bytes", record=name
        )


def _fields(
    mirror: Manifest, sizes: dict[str, int], places: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for name, record in sorted(mirror.records.items()):
        for member in record.fields if name in sizes else ():
            if not member.name or member.bit_width is not None:
                continue
            seen.add((name, member.name))
            subject = {"record": name, "field": member.name}
            if (name, member.name) not in places:
                mine = f"at byte {member.offset}"
                yield _say(FIELD_EXTRA, Severity.SILENT_WRONG, mine, "absent", **subject)
                continue
            offset, size = places[name, member.name]
            width = mirror.size_of(member.type)
            if offset != member.offset:
                mine, theirs = f"at byte {member.offset}", f"at byte {offset}"
                yield _say(FIELD_OFFSET, Severity.SILENT_WRONG, mine, theirs, **subject)
            if size != width:
                mine, theirs = f"{width} bytes", f"{size} bytes"
                yield _say(FIELD_WIDTH, Severity.SILENT_WRONG, mine, theirs, **subject)
    for name, field in sorted(set(places) - seen):
        if name in mirror.records:
            theirs = f"at byte {places[name, field][0]}"
            subject = {"record": name, "field": field}
            yield _say(FIELD_MISSING, Severity.SILENT_WRONG, "absent", theirs, **subject)


def _values(mirror: Manifest, values: dict[str, int]) -> Iterator[Finding]:
    mine = {label: value for enum in mirror.enums.values() for label, value in enum.values}
    for label in sorted(set(mine) | set(values)):
        here, there = mine.get(label, "absent"), values.get(label, "absent")
        if here != there:
            yield _say(ENUM_VALUE, Severity.SILENT_WRONG, here, there, constant=label)
