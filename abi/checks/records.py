"""Whole records: their size, alignment and kind, and how far a wrong one reaches."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi.checks.base import Comparison, Pair, Rule, finding
from hotfire.abi.checks.relation import shape
from hotfire.verdict import Finding, Severity

RECORD_SIZE = Rule(
    "RECORD_SIZE",
    "whoever allocates it by the other side's size reads or writes past its end",
    "declare the fields of the library's record in the library's order",
)
RECORD_ALIGN = Rule(
    "RECORD_ALIGN",
    "an array of it, or a record that holds it, is laid out otherwise",
    "give the mirror the library's packing and alignment",
)
RECORD_KIND = Rule(
    "RECORD_KIND",
    "a union's members share their bytes, a struct's do not",
    "declare it as the library does",
)
RECORD_STRIDE = Rule(
    "RECORD_STRIDE",
    "from the second element on, an array of it is read at the wrong place",
    "declare the fields of the library's record, so that its size is the library's",
)
RECORD_OPAQUE = Rule(
    "RECORD_OPAQUE",
    "the library no longer says how it is laid out, and may change it without notice",
    "use the library's accessors, and keep only pointers to it",
)
RULES = (RECORD_SIZE, RECORD_ALIGN, RECORD_KIND, RECORD_STRIDE, RECORD_OPAQUE)


def check(both: Comparison) -> Iterator[Finding]:
    """Every pair of records of which both layouts are known."""
    for pair in both.pairs:
        yield from _pair(both, pair)
    for record in both.mirror.records.values():
        other = both.library.records.get(both.library_record(record.name))
        if record.opaque or other is None or not both.library.complete:
            continue
        # What the library's headers do not declare themselves, they may know more of elsewhere.
        if other.opaque and other.name in both.library.declared:
            yield finding(
                RECORD_OPAQUE,
                Severity.LATENT,
                f"the mirror lays {record.name} out, but the library only declares its name",
                other.location or record.location,
                record=other.name,
                mirror=f"{record.size} bytes",
                library="opaque",
            )


def _pair(both: Comparison, pair: Pair) -> Iterator[Finding]:
    mirror, library, name = pair.mirror, pair.library, pair.name
    if mirror.kind != library.kind:
        yield finding(
            RECORD_KIND,
            Severity.SILENT_WRONG,
            f"{name} is a {library.kind}, the mirror says {mirror.kind}",
            library.location,
            record=name,
            mirror=mirror.kind,
            library=library.kind,
        )
    if mirror.size != library.size:
        yield finding(
            RECORD_SIZE,
            size_severity(both, pair),
            f"{name} has {library.size} bytes, the mirror's has {mirror.size}{_reach(both, pair)}",
            library.location,
            record=name,
            mirror=str(mirror.size),
            library=str(library.size),
        )
        yield from _stride(both, pair)
    elif mirror.align != library.align and _says_alignment(both, pair):
        yield finding(
            RECORD_ALIGN,
            Severity.LATENT,
            f"{name} is aligned to {library.align} bytes, the mirror's to {mirror.align}",
            library.location,
            record=name,
            mirror=str(mirror.align),
            library=str(library.align),
        )


def _says_alignment(both: Comparison, pair: Pair) -> bool:
    """Whether both sides know the alignment: numpy packs unless told, and accessors hide it.

    DWARF says it where it is raised, not where a packing lowers it and moves nothing.
    """
    if both.mirror.source in ("numpy", "accessor"):
        return False
    sides = [(both.mirror, pair.mirror), (both.library, pair.library)]
    least = min(record.align for _, record in sides)
    return not any(side.source == "dwarf" and record.align > least for side, record in sides)


def _reach(both: Comparison, pair: Pair) -> str:
    use = both.use(pair)
    if use.by_value:
        return f"; {use.by_value[0]} passes it by value"
    if use.written:
        return f"; {use.written[0]} is given its address"
    if use.allocated_by_library:
        return "; only the library allocates it"
    return ""


def size_severity(both: Comparison, pair: Pair) -> Severity:
    """How far a wrong size reaches: a record that only the library allocates is only half seen."""
    use = both.use(pair)
    small = pair.mirror.size < pair.library.size
    if use.by_value or use.embedded:
        return Severity.MEMORY_UNSAFE
    if use.allocated_by_library and small:
        return Severity.LATENT
    return Severity.MEMORY_UNSAFE if small else Severity.SILENT_WRONG


def _stride(both: Comparison, pair: Pair) -> Iterator[Finding]:
    use = both.use(pair)
    where = use.repeated
    if not where:
        return
    yield finding(
        RECORD_STRIDE,
        Severity.MEMORY_UNSAFE,
        f"{where[0]} reaches {pair.name}: element 1 starts at byte {pair.library.size}, "
        f"the mirror reads it at {pair.mirror.size}",
        pair.library.location,
        record=pair.name,
        mirror=str(pair.mirror.size),
        library=str(pair.library.size),
    )


def passed_alike(both: Comparison, pair: Pair) -> bool:
    """Whether a call by value moves the same bytes through the same registers on both sides."""
    if pair.mirror.size != pair.library.size or pair.mirror.kind != pair.library.kind:
        return False
    if pair.library.size > 32:
        # Larger ones go through memory everywhere; their fields are checked as fields.
        return True
    return shape(both.mirror, pair.mirror) == shape(both.library, pair.library)
