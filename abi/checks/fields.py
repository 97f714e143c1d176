"""Fields by name: which are missing, which moved, which are read as something else."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi.checks.base import Comparison, Pair, Rule, finding, is_reserved
from hotfire.abi.checks.relation import Difference, Kind, difference
from hotfire.abi.manifest import Field
from hotfire.verdict import Finding, Severity

FIELD_OFFSET = Rule(
    "FIELD_OFFSET",
    "the mirror reads and writes another field's bytes",
    "declare the fields of the library's record in the library's order",
)
FIELD_WIDTH = Rule(
    "FIELD_WIDTH",
    "bytes beside the field are read into it, or bytes of it are lost",
    "give the field the library's type",
)
FIELD_TYPE = Rule(
    "FIELD_TYPE",
    "the same bytes mean something else",
    "give the field the library's type",
)
BITFIELD = Rule(
    "BITFIELD",
    "bits of a neighbour are read into the field, or bits of it are lost",
    "declare the field with the library's bit width",
)
CALLBACK_FIELD = Rule(
    "CALLBACK",
    "the library calls it with other arguments than it takes",
    "give the callback the library's signature",
)
RULES = (FIELD_OFFSET, FIELD_WIDTH, FIELD_TYPE, BITFIELD, CALLBACK_FIELD)

_TYPE_SEVERITY = {
    Kind.ERASED: Severity.INFO,
    Kind.BOOL: Severity.INFO,
    Kind.ADDRESS: Severity.INFO,
    Kind.HALF: Severity.INFO,
    Kind.SIGN: Severity.LATENT,
    Kind.RANGE: Severity.SILENT_WRONG,
    Kind.CLASS: Severity.SILENT_WRONG,
    Kind.DEPTH: Severity.MEMORY_UNSAFE,
    Kind.STRIDE: Severity.MEMORY_UNSAFE,
    Kind.RECORD: Severity.MEMORY_UNSAFE,
    Kind.CALLBACK: Severity.MEMORY_UNSAFE,
}


def check(both: Comparison) -> Iterator[Finding]:
    """Every field that both sides name."""
    for pair in both.pairs:
        for mine, theirs in both.shared(pair):
            yield from _field(both, pair, mine, theirs)


def _field(both: Comparison, pair: Pair, mine: Field, theirs: Field) -> Iterator[Finding]:
    if mine.bit_width is not None or theirs.bit_width is not None:
        yield from _bits(both, pair, mine, theirs)
        return
    quiet = is_reserved(theirs.name)
    if mine.bit_offset != theirs.bit_offset:
        yield finding(
            FIELD_OFFSET,
            Severity.INFO if quiet else Severity.SILENT_WRONG,
            f"{pair.name}.{theirs.name} is at byte {theirs.offset}, the mirror has it at "
            f"{mine.offset}{_there(both, pair, mine)}",
            theirs.location or pair.library.location,
            record=pair.name,
            field=theirs.name,
            mirror=str(mine.offset),
            library=str(theirs.offset),
        )
    mirror_size, library_size = both.mirror.width_of(mine) // 8, both.library.width_of(theirs) // 8
    flexible = mirror_size == 0 or library_size == 0
    found = difference(both, mine.type, theirs.type)
    whole = mine.type.is_record and theirs.type.is_record
    if mirror_size != library_size and not whole and not flexible:
        hidden = _hidden_by_padding(both, pair)
        yield finding(
            FIELD_WIDTH,
            Severity.INFO if quiet else Severity.LATENT if hidden else Severity.SILENT_WRONG,
            f"{pair.name}.{theirs.name} has {library_size} bytes, the mirror's has {mirror_size}"
            + ("; padding hides it for now" if hidden else ""),
            theirs.location or pair.library.location,
            record=pair.name,
            field=theirs.name,
            mirror=f"{mine.type} ({mirror_size} bytes)",
            library=f"{theirs.type} ({library_size} bytes)",
        )
    if found is not None:
        yield from _type(pair, mine, theirs, found, flexible or mirror_size == library_size)


def _type(
    pair: Pair, mine: Field, theirs: Field, found: Difference, same_bytes: bool
) -> Iterator[Finding]:
    if found.kind is Kind.WIDTH or (found.kind is Kind.COUNT and not same_bytes):
        return
    rule = CALLBACK_FIELD if found.kind is Kind.CALLBACK else FIELD_TYPE
    yield finding(
        rule,
        Severity.INFO
        if is_reserved(theirs.name)
        else _TYPE_SEVERITY.get(found.kind, Severity.SILENT_WRONG),
        f"{pair.name}.{theirs.name} is {theirs.type}, the mirror says {mine.type}: {found.why}",
        theirs.location or pair.library.location,
        record=pair.name,
        field=theirs.name,
        mirror=str(mine.type),
        library=str(theirs.type),
    )


def _bits(both: Comparison, pair: Pair, mine: Field, theirs: Field) -> Iterator[Finding]:
    def shown(side: Field, bits: int) -> str:
        return f"{bits} bits at bit {side.bit_offset}"

    mirror_bits, library_bits = both.mirror.width_of(mine), both.library.width_of(theirs)
    if (mine.bit_offset, mirror_bits) == (theirs.bit_offset, library_bits):
        return
    yield finding(
        BITFIELD,
        Severity.INFO if is_reserved(theirs.name) else Severity.SILENT_WRONG,
        f"{pair.name}.{theirs.name} is {shown(theirs, library_bits)}, the mirror has "
        f"{shown(mine, mirror_bits)}",
        theirs.location or pair.library.location,
        record=pair.name,
        field=theirs.name,
        mirror=shown(mine, mirror_bits),
        library=shown(theirs, library_bits),
    )


def _there(both: Comparison, pair: Pair, mine: Field) -> str:
    """What of the library's lies where the mirror reads."""
    for member in both.library.flat_fields(pair.library):
        end = member.bit_offset + both.library.width_of(member)
        if member.bit_offset <= mine.bit_offset < end:
            return f", where the library has {member.name}"
    inside = mine.offset < pair.library.size
    return ", which is padding" if inside else ", which is past its end"


def _hidden_by_padding(both: Comparison, pair: Pair) -> bool:
    """Whether nothing else in the record shows that a width is wrong."""
    moved = any(mine.bit_offset != theirs.bit_offset for mine, theirs in both.shared(pair))
    return not moved and pair.mirror.size == pair.library.size
