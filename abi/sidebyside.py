"""The two layouts of a record beside each other, and what is read where."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import zip_longest

from hotfire.abi.checks.base import Comparison, Pair
from hotfire.abi.checks.relation import Kind, difference
from hotfire.abi.manifest import Field, Manifest
from hotfire.abi.spelling import plain
from hotfire.verdict import Finding

WIDTH = 38


def drifted(both: Comparison, findings: list[Finding]) -> Iterator[str]:
    """The text of each record that a gate finding is about, by name."""
    names = {found.subject.get("record") for found in findings if found.severity.gates}
    seen: set[str] = set()
    for pair in both.pairs:
        if pair.name in names and pair.name not in seen:
            seen.add(pair.name)
            yield layouts(both, pair)


def layouts(both: Comparison, pair: Pair) -> str:
    """One record as two columns by offset; `!` marks a row on which the two disagree."""
    mirror, library = both.fields(pair)
    mine, theirs = _rows(mirror), _rows(library)
    lines = [
        f"{pair.kind} {pair.name}: the mirror has {pair.mirror.size} bytes, "
        f"the library {pair.library.size}",
        f"    byte   {'mirror':<{WIDTH}} library",
    ]
    first = ""
    for place in sorted(mine.keys() | theirs.keys()):
        left, right = mine.get(place, []), theirs.get(place, [])
        for one, other in zip_longest(left, right):
            same = _alike(both, one, other)
            mark = " " if same else "!"
            columns = f"{_place(place):>5}   {_shown(one):<{WIDTH}} {_shown(other)}"
            lines.append(f"  {mark} {columns}".rstrip())
            if not same and not first:
                first = _first(both.library, pair, one, other, place)
    return "\n".join([*lines, f"  {first}" if first else ""]).rstrip()


def _rows(fields: dict[str, Field]) -> dict[int, list[Field]]:
    found: dict[int, list[Field]] = {}
    for member in fields.values():
        found.setdefault(member.bit_offset, []).append(member)
    return found


def _alike(both: Comparison, one: Field | None, other: Field | None) -> bool:
    """Whether the two sides have the same field there, read the same way."""
    if one is None or other is None or plain(one.name) != plain(other.name):
        return False
    if both.mirror.width_of(one) != both.library.width_of(other):
        return False
    found = difference(both, one.type, other.type)
    return found is None or found.kind in (Kind.ERASED, Kind.BOOL, Kind.ADDRESS)


def _place(bit: int) -> str:
    return f"{bit // 8}" if bit % 8 == 0 else f"{bit // 8}.{bit % 8}"


def _shown(member: Field | None) -> str:
    if member is None:
        return ""
    bits = "" if member.bit_width is None else f" : {member.bit_width}"
    text = f"{member.name} {member.type}{bits}"
    return text if len(text) < WIDTH else f"{text[: WIDTH - 3]}.."


def _first(
    library: Manifest, pair: Pair, one: Field | None, other: Field | None, place: int
) -> str:
    """What goes wrong first, in words."""
    where = f"the first difference is at byte {_place(place)}"
    if one is None and other is not None:
        return f"{where}: the library has {other.name} there, the mirror nothing"
    if one is not None and other is None:
        inside = place < pair.library.size * 8
        under = next(
            (
                member.name
                for member in library.flat_fields(pair.library)
                if member.bit_offset <= place < member.bit_offset + library.width_of(member)
            ),
            "padding" if inside else "nothing of the record",
        )
        return f"{where}: what the mirror calls {one.name} is {under} in the library"
    if one is not None and other is not None and plain(one.name) != plain(other.name):
        return f"{where}: what the mirror calls {one.name} is {other.name} in the library"
    name = other.name if other is not None else ""
    return f"{where}: the two sides read {name} differently"


def text_diff(before: str, after: str) -> str:
    """A unified diff of two manifests, each record's name above its changed fields."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "committed", "headers", lineterm="", n=1
    )
    return "\n".join(lines)
