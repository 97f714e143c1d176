"""What every check works on: two manifests, which record stands for which, how it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hotfire.abi import target
from hotfire.abi.checks.pairing import UNNAMED, Pairing, counterpart
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Enum, Field, Function, Manifest, Record
from hotfire.abi.spelling import matching_labels, plain, unique
from hotfire.verdict import Finding, Severity

__all__ = ["UNNAMED", "Comparison", "Pair", "Rule", "Use", "finding", "is_reserved", "is_sentinel"]

# bindgen's name for the bytes of bitfields says as little about them as a filler's does.
_RESERVED = re.compile(
    r"^_*(reserved|padding|pad|unused|dummy|spare|bitfield|bindgen_pad)\w*$", re.I
)
_SENTINEL = re.compile(r"(COUNT|MAX|LAST|END|NUM|TOTAL|SENTINEL|FORCE32|_N|Count|Max|Last|End)$")


@dataclass(frozen=True)
class Rule:
    """A kind of finding.

    Args:
        id: its name in output and waivers.
        reason: why it matters, one sentence.
        remedy: what to do about it.
    """

    id: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Pair:
    """A record of the mirror and the library's record that it stands for."""

    mirror: Record
    library: Record

    @property
    def name(self) -> str:
        """What findings call it: the name that both sides know, else the library's."""
        known = {self.mirror.name, *self.mirror.aliases}
        names = (self.library.name, *self.library.aliases)
        return next((name for name in names if name in known), self.library.name)

    @property
    def kind(self) -> str:
        """Struct or union."""
        return self.library.kind


@dataclass(frozen=True)
class Use:
    """How a record is used: by which functions, and as which fields of other records."""

    by_value: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    embedded: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()

    @property
    def allocated_by_library(self) -> bool:
        """Whether the mirror only ever sees records that the library itself made."""
        return bool(self.returned) and not (self.by_value or self.written or self.embedded)


class Comparison:
    """The mirror as it was written against the library that is met.

    Args:
        mirror: what is checked.
        library: what it is checked against.
        names: the mirror's name of a record to the library's, where they differ.

    Raises:
        InputError: if the two are for different targets.
    """

    def __init__(
        self, mirror: Manifest, library: Manifest, names: dict[str, str] | None = None
    ) -> None:
        target.require_same(mirror.target, library.target)
        self.mirror = mirror
        self.library = library
        self._pairing = Pairing(mirror, library, names or {})
        self._fields: dict[str, tuple[dict[str, Field], dict[str, Field]]] = {}

    def counterpart(self, function: Function) -> Function | None:
        """The library's function that one of the mirror's is meant to be."""
        return counterpart(self.mirror, self.library, function)

    def library_record(self, mirror_name: str) -> str:
        """The library's name of a record of the mirror, "" if it has none."""
        return self._pairing.records.get(mirror_name, "")

    def library_enum(self, mirror_name: str) -> Enum | None:
        """The library's enum that one of the mirror stands for, None if it has none."""
        return self.library.enums.get(self._pairing.enums.get(mirror_name, ""))

    @property
    def n_scoped_labels(self) -> int:
        """How many labels of the mirror's scoped enums stand for one of the library's."""
        known = self.library.values.keys()
        return sum(
            len(matching_labels(mine, dict(theirs.values)) if theirs else known & mine.keys())
            for enum in self.mirror.enums.values()
            for mine, theirs in [(dict(enum.values), self.library_enum(enum.name))]
            if enum.scoped or (theirs and theirs.scoped)
        )

    @cached_property
    def pairs(self) -> list[Pair]:
        """Records of which both sides know the layout, by name."""
        found = []
        for mine, theirs in sorted(self._pairing.records.items()):
            mirror, library = self.mirror.records.get(mine), self.library.records.get(theirs)
            if mirror and library and not mirror.opaque and not library.opaque:
                found.append(Pair(mirror, library))
        return found

    @cached_property
    def bound(self) -> list[tuple[Function, Function]]:
        """Functions of the mirror beside the library's."""
        found = []
        for name in sorted(self.mirror.functions):
            other = self.counterpart(self.mirror.functions[name])
            if other is not None:
                found.append((self.mirror.functions[name], other))
        return found

    @cached_property
    def met_functions(self) -> list[Function]:
        """The library's functions that the mirror's user can call: all, if it binds none itself."""
        if not self.mirror.functions:
            return [self.library.functions[name] for name in sorted(self.library.functions)]
        return [theirs for _, theirs in self.bound]

    @cached_property
    def uses(self) -> dict[str, Use]:
        """How each record of the library is used by the functions that the mirror can call."""
        sets: dict[str, dict[str, set[str]]] = {}

        def note(of: Type, how: str, where: str) -> None:
            if of.is_record:
                sets.setdefault(of.name, {}).setdefault(how, set()).add(where)

        for function in self.met_functions:
            note(function.type.target, "by_value", function.name)
            note(function.type.target.target, "returned", function.name)
            for arg in function.type.args or ():
                note(arg, "by_value", function.name)
                for called in called_back_with(arg):
                    note(called, "by_value", function.name)
                if arg.kind == "pointer":
                    note(arg.target, "written", function.name)
        for record in self.library.records.values():
            for member in record.fields:
                where = f"{record.name}.{member.name}"
                of = member.type
                how = "embedded"
                while of.kind in ("array", "pointer"):
                    note(of.target, "repeated", where)
                    how = "behind" if of.kind == "pointer" else how
                    of = of.target
                note(of, how, where)
        return {
            name: Use(**{how: tuple(sorted(found)) for how, found in table.items()})
            for name, table in sets.items()
        }

    def use(self, pair: Pair) -> Use:
        """How the library uses a record."""
        return self.uses.get(pair.library.name, Use())

    def fields(self, pair: Pair) -> tuple[dict[str, Field], dict[str, Field]]:
        """Both sides' fields by name, anonymous members in their place."""
        if pair.mirror.name not in self._fields:
            self._fields[pair.mirror.name] = self._new_fields(pair)
        return self._fields[pair.mirror.name]

    def _new_fields(self, pair: Pair) -> tuple[dict[str, Field], dict[str, Field]]:
        library = _opened(self.library, pair.library, self.mirror, pair.mirror)
        mine = _opened(self.mirror, pair.mirror, self.library, pair.library)
        # `from_` is how Python writes a field called `from`, `nTokens` how others do `n_tokens`.
        free = [name for name in library if name not in mine]
        spelled = unique(free, {name: plain(name) for name in free})
        mirror = {
            name if name in library else spelled.pop(plain(name), name): member
            for name, member in mine.items()
        }
        return mirror, library

    def shared(self, pair: Pair) -> Iterator[tuple[Field, Field]]:
        """Fields of the same name on both sides, in the library's order."""
        mirror, library = self.fields(pair)
        for name, member in library.items():
            if name in mirror:
                yield mirror[name], member


def _opened(
    manifest: Manifest, record: Record, other_manifest: Manifest, other: Record
) -> dict[str, Field]:
    """A record's fields by name; a named member that the other side leaves unnamed is opened.

    ctypes bindings often give an anonymous union a name of their own.
    """
    unnamed = {m.bit_offset for m in other.fields if not m.name and other_manifest.record(m.type)}
    theirs = {member.name for member in other.fields}
    found: dict[str, Field] = {}
    for member in manifest.flat_fields(record):
        inner = manifest.record(member.type)
        if inner is not None and member.name not in theirs and member.bit_offset in unnamed:
            found |= {m.name: m for m in manifest.flat_fields(inner, member.bit_offset)}
        else:
            found[member.name] = member
    return found


def called_back_with(argument: Type) -> tuple[Type, ...]:
    """What the library passes by value to a callback that is given to it."""
    if not argument.is_callback:
        return ()
    return (*(argument.target.args or ()), argument.target.target)


def is_reserved(name: str) -> bool:
    """Whether a field's name says that it only keeps space."""
    return bool(_RESERVED.match(name))


def is_sentinel(name: str) -> bool:
    """Whether an enumerator's name says that it counts the others."""
    return bool(_SENTINEL.search(name))


def finding(
    rule: Rule, severity: Severity, message: str, location: str = "", **subject: str
) -> Finding:
    """A finding of a rule, with the rule's remedy."""
    return Finding(
        rule=rule.id,
        severity=severity,
        message=message,
        remedy=rule.remedy,
        location=location,
        subject={key.rstrip("_"): value for key, value in subject.items() if value},
    )
