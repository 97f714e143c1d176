"""Constants: values of enums and macros, and what holds an enum."""

from __future__ import annotations

from collections.abc import Iterator

from hotfire.abi.checks.base import Comparison, Rule, finding, is_sentinel
from hotfire.abi.checks.relation import Kind, crossing_values, difference
from hotfire.abi.manifest import Enum
from hotfire.abi.spelling import matching_labels
from hotfire.verdict import Finding, Severity

ENUM_VALUE = Rule(
    "ENUM_VALUE",
    "the mirror's number means something else to the library",
    "take the library's values",
)
ENUM_NEW = Rule(
    "ENUM_NEW",
    "the library may return a value that the mirror has no name for",
    "add it if it is wanted",
)
ENUM_BASE = Rule(
    "ENUM_BASE",
    "the enum is stored in an integer of another size or sign",
    "give the enum the library's underlying type",
)
CONSTANT = Rule(
    "CONSTANT",
    "the mirror's number means something else to the library",
    "take the library's value",
)
CONSTANT_NEW = Rule(
    "CONSTANT_NEW",
    "the library defines a constant that the mirror has not",
    "add it if it is wanted",
)
TYPEDEF = Rule(
    "TYPEDEF",
    "everything that is declared with the name changed with it",
    "give the name the library's type",
)
RULES = (ENUM_VALUE, ENUM_NEW, ENUM_BASE, CONSTANT, CONSTANT_NEW, TYPEDEF)

_TYPEDEF_SEVERITY = {
    Kind.ERASED: None,
    Kind.BOOL: Severity.INFO,
    Kind.ADDRESS: Severity.INFO,
    Kind.SIGN: Severity.LATENT,
    Kind.CALLBACK: Severity.MEMORY_UNSAFE,
}


def check(both: Comparison) -> Iterator[Finding]:
    """Values by name, then enums by name, then typedefs."""
    yield from _values(both)
    for enum in both.mirror.enums.values():
        yield from _labels(both, enum)
    for name in sorted(both.library.enums):
        yield from _enum(both, both.library.enums[name])
    yield from _new_constants(both)
    yield from _typedefs(both)


def _values(both: Comparison) -> Iterator[Finding]:
    enum_of = {label: e for e in both.library.enums.values() for label, _ in e.values}
    labels = {label for e in both.mirror.enums.values() for label, _ in e.values}
    place = {c.name: c.location for c in both.library.constants.values()}
    for name, mine in sorted(both.mirror.values.items()):
        theirs = both.library.values.get(name)
        enum = enum_of.get(name)
        is_enum = enum is not None or name in labels
        if theirs is None:
            yield from _removed(both, name, mine, is_enum)
            continue
        if _same(mine, theirs):
            continue
        grown = enum is not None and is_sentinel(name) and _only_grew(both, enum, name)
        yield finding(
            ENUM_VALUE if is_enum else CONSTANT,
            Severity.INFO if grown else Severity.SILENT_WRONG,
            f"{name} is {theirs!r}, the mirror says {mine!r}"
            + (": values were appended" if grown else ""),
            enum.location if enum else place.get(name, ""),
            constant=name,
            enum=enum.name if enum else "",
            mirror=repr(mine),
            library=repr(theirs),
        )


def _labels(both: Comparison, mine: Enum) -> Iterator[Finding]:
    """The labels of an enum that is scoped on one side at least, inside the two enums."""
    theirs = both.library_enum(mine.name)
    if not mine.scoped and not (theirs and theirs.scoped):
        return
    known: dict[str, int | float | str] = dict(theirs.values) if theirs else {}
    matched = matching_labels(dict(mine.values), known)
    for label, value in mine.values:
        other = matched.get(label, label)
        there = known.get(other, both.library.values.get(other))
        if there is None:
            if matched and both.library.complete:
                yield from _gone(mine.name, label, value, value in known.values())
        elif not _same(value, there):
            yield finding(
                ENUM_VALUE,
                Severity.SILENT_WRONG,
                f"{other} is {there!r}, the mirror says {mine.name}.{label} = {value!r}",
                theirs.location if theirs else "",
                constant=other,
                enum=theirs.name if theirs else mine.name,
                mirror=repr(value),
                library=repr(there),
            )


def _gone(enum: str, label: str, value: int, is_spelling: bool) -> Iterator[Finding]:
    yield finding(
        ENUM_VALUE,
        Severity.INFO if is_spelling else Severity.LATENT,
        f"the library has no {enum}.{label}; the mirror says {value!r}"
        + (", which the library names otherwise" if is_spelling else ""),
        constant=label,
        enum=enum,
        mirror=repr(value),
        library="absent",
    )


def _same(mine: int | float | str, theirs: int | float | str) -> bool:
    if isinstance(mine, str) or isinstance(theirs, str):
        return mine == theirs
    if isinstance(mine, int) and isinstance(theirs, int):
        # `-1` and `0xFFFFFFFF` are one pattern of 32 or 64 bits.
        low, high = sorted((mine, theirs))
        return low == high or any(
            low + (1 << bits) == high and -(1 << bits - 1) <= low < 0 for bits in (32, 64)
        )
    return abs(mine - theirs) <= 1e-6 * max(abs(mine), abs(theirs))


def _only_grew(both: Comparison, enum: Enum, sentinel: str) -> bool:
    """Whether a counting enumerator moved only because others were appended before it."""
    mine = both.mirror.values
    others = [(label, value) for label, value in enum.values if label != sentinel]
    theirs = dict(enum.values)[sentinel]
    before = mine[sentinel]
    return (
        isinstance(before, int)
        and theirs > before
        and all(
            mine.get(label, value) == value for label, value in others if not is_sentinel(label)
        )
    )


def _removed(
    both: Comparison, name: str, mine: int | float | str, is_enum: bool
) -> Iterator[Finding]:
    """Names that the library no longer has; a Python module's own constants are its business."""
    if not both.library.complete or (not both.mirror.complete and not is_enum):
        return
    if is_enum and not both.library.enums:
        return
    yield finding(
        ENUM_VALUE if is_enum else CONSTANT,
        Severity.LATENT,
        f"the library has no {name}; the mirror says {mine!r}",
        constant=name,
        mirror=repr(mine),
        library="absent",
    )


def _enum(both: Comparison, theirs: Enum) -> Iterator[Finding]:
    mine = _counterpart(both, theirs)
    named = set(both.mirror.values)
    if mine is not None and (mine.scoped or theirs.scoped):
        named |= set(matching_labels(dict(mine.values), dict(theirs.values)).values())
    known = [label for label, _ in theirs.values if label in named]
    unknown = [label for label, _ in theirs.values if label not in named]
    if known and unknown:
        yield finding(
            ENUM_NEW,
            Severity.INFO,
            f"the mirror has no {', '.join(unknown)} of {theirs.name}",
            theirs.location,
            enum=theirs.name,
            constant=unknown[0],
            mirror="absent",
            library=", ".join(unknown),
        )
    if mine is None or both.mirror.source in ("ctypes", "accessor") or mine.base == theirs.base:
        return
    if mine.base.size != theirs.base.size:
        severity = Severity.MEMORY_UNSAFE
    elif crossing_values(theirs.values, theirs.base.size, mine.base.signed):
        severity = Severity.SILENT_WRONG
    else:
        severity = Severity.INFO
    yield finding(
        ENUM_BASE,
        severity,
        f"{theirs.name} is stored as {theirs.base}, the mirror stores it as {mine.base}",
        theirs.location,
        enum=theirs.name,
        mirror=str(mine.base),
        library=str(theirs.base),
    )


def _counterpart(both: Comparison, theirs: Enum) -> Enum | None:
    for name in (theirs.name, *theirs.aliases):
        if name in both.mirror.enums:
            return both.mirror.enums[name]
    return next(
        (e for e in both.mirror.enums.values() if both.library_enum(e.name) == theirs), None
    )


def _new_constants(both: Comparison) -> Iterator[Finding]:
    if not both.mirror.complete:
        return
    for name, constant in sorted(both.library.constants.items()):
        if name not in both.mirror.values and name in both.library.declared:
            yield finding(
                CONSTANT_NEW,
                Severity.INFO,
                f"the mirror has no {name}",
                constant.location,
                constant=name,
                mirror="absent",
                library=repr(constant.value),
            )


def _typedefs(both: Comparison) -> Iterator[Finding]:
    for name, mine in sorted(both.mirror.typedefs.items()):
        theirs = both.library.typedefs.get(name)
        found = difference(both, mine, theirs) if theirs is not None else None
        if found is None:
            continue
        severity = _TYPEDEF_SEVERITY.get(found.kind, Severity.SILENT_WRONG)
        if severity is None:
            continue
        yield finding(
            TYPEDEF,
            severity,
            f"{name} is {theirs}, the mirror says {mine}: {found.why}",
            typedef=name,
            mirror=str(mine),
            library=str(theirs),
        )
