"""Which record and which enum of the library each of the mirror's stands for.

By name; by use, at the same place of a function or of another record; by a name that is spelled
as another language does; and, for numpy, whose dtypes have no names, by the fields.
"""

from __future__ import annotations

from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Enum, Function, Manifest, Record
from hotfire.abi.spelling import plain, plain_record, unique

UNNAMED = ".anonymous"
"""What readers put in the name of a record that an outer one has as an unnamed member."""


def counterpart(mirror: Manifest, library: Manifest, function: Function) -> Function | None:
    """The library's function that one of the mirror's is meant to be."""
    functions = library.functions
    to = library.redirects.get(function.name, function.name)
    if mirror.redirects.get(function.name) == to:
        # Both sides rename it the same way, so that its plain name means the same to both.
        return functions.get(function.name) or functions.get(to)
    return functions.get(to) or functions.get(function.name)


class Pairing:
    """Names of the mirror's records and enums to the library's.

    Args:
        mirror: what is checked.
        library: what it is checked against.
        names: records that are known to belong together.
    """

    def __init__(self, mirror: Manifest, library: Manifest, names: dict[str, str]) -> None:
        self.mirror = mirror
        self.library = library
        self.records = dict(names)
        self.enums: dict[str, str] = {}
        self._by_name()
        self._by_use(self._used())
        self._by_spelling()
        if mirror.source == "numpy":
            self._by_fields()

    def _by_name(self) -> None:
        known = self.library.record_names
        for record in self.mirror.records.values():
            # The members of an unnamed record are compared as those of the outer one.
            if record.name in self.records or UNNAMED in record.name:
                continue
            for name in (record.name, *record.aliases):
                if name in known:
                    self.records[record.name] = known[name]
                    break
        enums = {n: e.name for e in self.library.enums.values() for n in (*e.aliases, e.name)}
        for enum in self.mirror.enums.values():
            for name in (enum.name, *enum.aliases):
                if name in enums:
                    self.enums.setdefault(enum.name, enums[name])

    def _used(self) -> list[tuple[Type, Type]]:
        """Types that stand at the same place of both sides."""
        found: list[tuple[Type, Type]] = []
        for function in self.mirror.functions.values():
            other = counterpart(self.mirror, self.library, function)
            if other is not None:
                found.append((function.type, other.type))
        for name, of in self.mirror.typedefs.items():
            if name in self.library.typedefs:
                found.append((of, self.library.typedefs[name]))
        for mine, theirs in list(self.records.items()):
            found += self._members(mine, theirs)
        return found

    def _by_use(self, waiting: list[tuple[Type, Type]]) -> None:
        while waiting:
            mine, theirs = waiting.pop()
            if mine.is_record and theirs.is_record:
                if mine.name not in self.records:
                    self.records[mine.name] = theirs.name
                    waiting += self._members(mine.name, theirs.name)
                continue
            if mine.kind != theirs.kind:
                continue
            if mine.kind == "enum":
                self.enums.setdefault(mine.name, theirs.name)
            if mine.to is not None and theirs.to is not None:
                waiting.append((mine.to, theirs.to))
            waiting += zip(mine.args or (), theirs.args or (), strict=False)

    def _members(self, mine: str, theirs: str) -> list[tuple[Type, Type]]:
        mirror, library = self.mirror.records.get(mine), self.library.records.get(theirs)
        if mirror is None or library is None:
            return []
        others = {member.name: member.type for member in library.fields if member.name}
        return [
            (member.type, others[member.name]) for member in mirror.fields if member.name in others
        ]

    def _free(self) -> tuple[dict[str, Record], dict[str, Record]]:
        """Records of both sides that are laid out and stand for nothing yet."""
        taken = set(self.records.values())

        def free(of: Manifest, known: object) -> dict[str, Record]:
            return {
                name: record
                for name, record in of.records.items()
                if not record.opaque and "." not in name and name not in known  # type: ignore[operator]
            }

        return free(self.mirror, self.records), free(self.library, taken)

    def _by_spelling(self) -> None:
        mine, theirs = self._free()
        ours = unique(mine, {name: plain_record(name) for name in mine})
        names = {name: r.name for r in theirs.values() for name in (r.name, *r.aliases)}
        spelled: dict[str, set[str]] = {}
        for name, of in names.items():
            spelled.setdefault(plain_record(name), set()).add(of)
        for key, name in ours.items():
            others = spelled.get(key, set())
            if len(others) == 1:
                (other,) = others
                if _shared(mine[name], theirs[other]):
                    self._add(name, other)
        enums = {plain_record(n): e.name for e in self.library.enums.values() for n in _names(e)}
        for enum in self.mirror.enums.values():
            known = enums.get(plain_record(enum.name))
            if known:
                self.enums.setdefault(enum.name, known)

    def _by_fields(self) -> None:
        mine, theirs = self._free()
        for name, record in mine.items():
            counts = sorted(((_shared(record, theirs[o]), o) for o in theirs), reverse=True)
            if not counts or counts[0][0] * 2 <= len(record.fields):
                continue
            # Two that are equally alike tell nothing.
            if len(counts) == 1 or counts[0][0] > counts[1][0]:
                self._add(name, counts[0][1])

    def _add(self, mine: str, theirs: str) -> None:
        if theirs not in self.records.values():
            self.records[mine] = theirs
            self._by_use(self._members(mine, theirs))


def _shared(one: Record, other: Record) -> int:
    """How many fields of two records have one name."""
    names = {plain(member.name) for member in other.fields if member.name}
    return sum(plain(member.name) in names for member in one.fields if member.name)


def _names(enum: Enum) -> tuple[str, ...]:
    return (enum.name, *enum.aliases)
