"""Fields and records that only one side has."""

from __future__ import annotations

from collections.abc import Iterator, Set

from hotfire.abi.checks.base import UNNAMED, Comparison, Pair, Rule, finding, is_reserved
from hotfire.abi.checks.relation import difference
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Field, Manifest, Record
from hotfire.verdict import Finding, Severity

FIELD_MISSING = Rule(
    "FIELD_MISSING",
    "the mirror never sets it, and what follows it may lie elsewhere",
    "add the field where the library has it",
)
FIELD_EXTRA = Rule(
    "FIELD_EXTRA",
    "what the mirror writes there lands in another field, or past the end",
    "remove the field from the mirror",
)
FIELD_RENAMED = Rule(
    "FIELD_RENAMED",
    "a field of another name at the same place may mean something else",
    "rename the field if it is the same, else use the new one",
)
RECORD_UNMIRRORED = Rule(
    "RECORD_UNMIRRORED",
    "a bound function reaches a record that the mirror does not describe",
    "declare the record, so that its layout is checked too",
)
RECORD_UNKNOWN = Rule(
    "RECORD_UNKNOWN",
    "nothing of the library could be compared with it",
    "rename it to the library's name, name the pair in hotfire.toml, or remove it",
)
RULES = (FIELD_MISSING, FIELD_EXTRA, FIELD_RENAMED, RECORD_UNMIRRORED, RECORD_UNKNOWN)


def check(both: Comparison) -> Iterator[Finding]:
    """Fields by name in every pair, and records that bound functions reach."""
    for pair in both.pairs:
        yield from _pair(both, pair)
    yield from _unmirrored(both)
    yield from _unknown(both)


def _pair(both: Comparison, pair: Pair) -> Iterator[Finding]:
    mirror, library = both.fields(pair)
    missing = {name: member for name, member in library.items() if name not in mirror}
    extra = {name: member for name, member in mirror.items() if name not in library}
    if not missing and not extra:
        return
    if _only_renamed(both, pair, missing, extra):
        yield from _renamed(both, pair, missing, extra)
        return
    for name, member in missing.items():
        yield finding(
            FIELD_MISSING,
            _missing_severity(both, pair, member),
            f"{pair.name}.{name} ({member.type} at byte {member.offset}) is not in the mirror",
            member.location or pair.library.location,
            record=pair.name,
            field=name,
            mirror="absent",
            library=f"{member.type} at {member.offset}",
        )
    for name, member in extra.items():
        yield finding(
            FIELD_EXTRA,
            Severity.INFO if _is_filler(both, pair, member) else Severity.SILENT_WRONG,
            f"the library's {pair.name} has no {name}; the mirror has it at byte {member.offset}",
            pair.library.location,
            record=pair.name,
            field=name,
            mirror=f"{member.type} at {member.offset}",
            library="absent",
        )


def _is_filler(both: Comparison, pair: Pair, mine: Field) -> bool:
    """Whether a field of the mirror's only stands for the library's padding."""
    if is_reserved(mine.name):
        return True
    first, last = mine.bit_offset, mine.bit_offset + both.mirror.width_of(mine)
    inside = mine.name.startswith("_") and last <= pair.library.size * 8
    return inside and not any(
        member.bit_offset < last and first < member.bit_offset + both.library.width_of(member)
        for member in both.library.flat_fields(pair.library)
    )


def _only_renamed(
    both: Comparison, pair: Pair, missing: dict[str, Field], extra: dict[str, Field]
) -> bool:
    """Whether the layouts are the same and only names differ."""
    if len(missing) != len(extra) or pair.mirror.size != pair.library.size:
        return False
    if any(mine.bit_offset != theirs.bit_offset for mine, theirs in both.shared(pair)):
        return False
    return all(
        (mine.bit_offset, mine.bit_width) == (theirs.bit_offset, theirs.bit_width)
        and both.mirror.width_of(mine) == both.library.width_of(theirs)
        for mine, theirs in zip(extra.values(), missing.values(), strict=True)
    )


def _renamed(
    both: Comparison, pair: Pair, missing: dict[str, Field], extra: dict[str, Field]
) -> Iterator[Finding]:
    """A field of another name in the same bytes: for a filler's name a rename, else two fields."""
    for mine, theirs in zip(extra.values(), missing.values(), strict=True):
        typed = difference(both, mine.type, theirs.type)
        why = f": {typed.why}" if typed else ""
        place = theirs.location or pair.library.location
        if is_reserved(mine.name) or is_reserved(theirs.name):
            yield finding(
                FIELD_RENAMED,
                Severity.INFO,
                f"{pair.name}.{theirs.name} ({theirs.type}) is called {mine.name} ({mine.type}) in "
                f"the mirror{why}",
                place,
                record=pair.name,
                field=theirs.name,
                mirror=mine.name,
                library=theirs.name,
            )
            continue
        yield finding(
            FIELD_MISSING,
            Severity.LATENT,
            f"{pair.name}.{theirs.name} ({theirs.type} at byte {theirs.offset}) is not in the "
            f"mirror, which has {mine.name} ({mine.type}) there{why}",
            place,
            record=pair.name,
            field=theirs.name,
            mirror="absent",
            library=f"{theirs.type} at {theirs.offset}",
        )
        yield finding(
            FIELD_EXTRA,
            Severity.LATENT,
            f"the library's {pair.name} has no {mine.name}; it has {theirs.name} at the same place",
            place,
            record=pair.name,
            field=mine.name,
            mirror=f"{mine.type} at {mine.offset}",
            library="absent",
        )


def _missing_severity(both: Comparison, pair: Pair, member: Field) -> Severity:
    mirror, _ = both.fields(pair)
    first, last = member.bit_offset, member.bit_offset + both.library.width_of(member)
    for mine in mirror.values():
        over = mine.bit_offset < last and first < mine.bit_offset + both.mirror.width_of(mine)
        if over and is_reserved(mine.name):
            return Severity.INFO
    if is_reserved(member.name):
        return Severity.INFO
    moved = any(mine.bit_offset != theirs.bit_offset for mine, theirs in both.shared(pair))
    same_size = pair.mirror.size == pair.library.size
    if pair.library.kind == "union" and same_size:
        return Severity.INFO
    at_tail = first >= pair.mirror.size * 8
    hidden = not moved and (same_size or (at_tail and both.use(pair).allocated_by_library))
    return Severity.LATENT if hidden else Severity.SILENT_WRONG


def _unknown(both: Comparison) -> Iterator[Finding]:
    """Records of the mirror that stand for nothing in a library whose every record is known."""
    if not both.library.complete:
        return
    # What a known record holds is compared as a part of it, under whatever name.
    held = {member.type.name for pair in both.pairs for member in pair.mirror.fields}
    for name in sorted((both.mirror.records.keys() & both.mirror.declared) - held):
        record = both.mirror.records[name]
        if record.opaque or both.library_record(name) or UNNAMED in name:
            continue
        yield finding(
            RECORD_UNKNOWN,
            Severity.INFO,
            f"the library has no {name}",
            record.location,
            record=name,
            mirror=f"{record.size} bytes",
            library="absent",
        )


def _unmirrored(both: Comparison) -> Iterator[Finding]:
    covered = {both.library_record(name) for name in both.mirror.records}
    handles = {both.library_record(n) for n, each in both.mirror.records.items() if each.opaque}
    for _, function in both.bound:
        parts = [*(function.type.args or ()), function.type.target]
        for record, by_value in _reached(both.library, parts, handles):
            if record.name in covered:
                continue
            covered.add(record.name)
            yield finding(
                RECORD_UNMIRRORED,
                Severity.MEMORY_UNSAFE if by_value else Severity.INFO,
                f"{function.name} reaches {record.name}{' by value' if by_value else ''}; "
                "the mirror does not describe it",
                record.location,
                record=record.name,
                function=function.name,
                mirror="absent",
                library=f"{record.size} bytes",
            )


def _reached(
    library: Manifest, parts: list[Type], handles: Set[str]
) -> Iterator[tuple[Record, bool]]:
    """Named records in a function's types and in the fields of those; whether passed by value.

    What a record holds is only said to be reached: the mirror may have bytes in its place. What a
    handle holds, opaque to the mirror, is the library's own business, although its DWARF tells.
    """
    waiting = [(part, True) for part in parts]
    seen: set[str] = set()
    while waiting:
        of, by_value = waiting.pop()
        if of.kind == "function":
            continue
        if of.kind in ("pointer", "array"):
            waiting.append((of.target, False))
            continue
        record = library.record(of)
        if record is None or record.name in seen:
            continue
        seen.add(record.name)
        if "." not in record.name:
            yield record, by_value
        if record.name not in handles:
            waiting += [(member.type, False) for member in record.fields]
