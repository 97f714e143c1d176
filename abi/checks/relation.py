"""How two types differ, in the one word that decides what it means for a caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hotfire.abi.checks.base import Comparison
from hotfire.abi.ctype import Type
from hotfire.abi.manifest import Manifest, Record
from hotfire.abi.spelling import matching_labels


class Kind(StrEnum):
    """The ways in which a mirror's type can differ from the library's."""

    ERASED = "erased"
    BOOL = "bool"
    SIGN = "sign"
    RANGE = "range"
    WIDTH = "width"
    CLASS = "class"
    ADDRESS = "address"
    DEPTH = "depth"
    STRIDE = "stride"
    COUNT = "count"
    RECORD = "record"
    CALLBACK = "callback"
    MEANING = "meaning"
    HALF = "half"


@dataclass(frozen=True)
class Difference:
    """One difference: its kind, and the rest of a sentence that starts with the types."""

    kind: Kind
    why: str


_INTEGERS = ("int", "bool", "enum")


def difference(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    """What differs between a mirror's type and the library's; None if calls cannot tell."""
    if mine == theirs and not mine.is_record:
        return None
    if mine.is_record and not theirs.is_record and both.mirror.source == "rust":
        mine = unwrapped(both.mirror, mine)
    if mine.kind in _INTEGERS and theirs.kind in _INTEGERS:
        return _integers(both, mine, theirs)
    if mine.kind == "pointer" and theirs.kind == "pointer":
        return _pointers(both, mine.target, theirs.target)
    if mine.kind == "array" and theirs.kind == "array":
        return _arrays(both, mine, theirs)
    if mine.is_record and theirs.is_record:
        return _records(both, mine, theirs)
    if mine.kind == theirs.kind and mine.kind in ("float", "bytes"):
        return Difference(Kind.WIDTH, "it is of another width")
    if mine.kind == theirs.kind:
        return None
    same_size = both.mirror.size_of(mine) == both.library.size_of(theirs)
    if {mine.kind, theirs.kind} == {"float", "int"} and same_size and mine.size == 2:
        return Difference(Kind.HALF, "C writes a half-precision number as the integer of its bits")
    if "bytes" in (mine.kind, theirs.kind) and same_size:
        return Difference(Kind.ERASED, "one side only knows its size")
    if {mine.kind, theirs.kind} <= {"pointer", "int"} and same_size:
        return Difference(
            Kind.ADDRESS, "an integer stands for an address; this holds on this target"
        )
    return Difference(Kind.CLASS, "it is of another class, so it is passed and read another way")


def unwrapped(manifest: Manifest, of: Type) -> Type:
    """What a record holds that is nothing but a wrapper, as Rust has them: `NonNull`, newtypes."""
    for _ in range(16):
        record = manifest.record(of)
        if record is None:
            break
        held = [m for m in record.fields if manifest.size_of(m.type) == record.size]
        # Of several without a size, the array is the one that C knows.
        arrays = [m for m in held if m.type.kind == "array"]
        held = arrays if record.size == 0 else held
        if len(held) != 1:
            break
        of = held[0].type
    return of


def _base(manifest: Manifest, of: Type) -> tuple[int, bool]:
    """Size and sign of an integer, a bool or an enum."""
    if of.kind == "enum":
        enum = manifest.enums.get(of.name)
        return (enum.base.size, enum.base.signed) if enum else (4, False)
    return of.size, of.signed


def _integers(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    (size, signed), (their_size, their_signed) = (
        _base(both.mirror, mine),
        _base(both.library, theirs),
    )
    if size != their_size:
        return Difference(Kind.WIDTH, f"it has {size} bytes, the library's has {their_size}")
    if mine.kind == theirs.kind == "enum" and _mean_otherwise(both, mine, theirs):
        return Difference(Kind.MEANING, "the two enums give their numbers other names")
    if (mine.kind == "bool") != (theirs.kind == "bool"):
        return Difference(Kind.BOOL, "one side reads any byte, the other only 0 and 1")
    if signed == their_signed or "char" in (mine.name, theirs.name):
        return None
    if theirs.kind == "enum":
        return _enum_range(both.library, theirs, signed)
    if mine.kind == "enum":
        return _enum_range(both.mirror, mine, their_signed)
    return Difference(Kind.SIGN, "the two sides read the top bit differently")


def _mean_otherwise(both: Comparison, mine: Type, theirs: Type) -> bool:
    """Whether two enums of different names also differ in what their numbers are called."""
    one, other = both.mirror.enums.get(mine.name), both.library.enums.get(theirs.name)
    if mine.name == theirs.name or one is None or other is None:
        return False
    if one.scoped or other.scoped:
        return not matching_labels(dict(one.values), dict(other.values))
    return not set(one.values) & set(other.values)


def _enum_range(manifest: Manifest, of: Type, signed: bool) -> Difference | None:
    """An enum beside an integer of the other sign matters only for values that this changes."""
    enum = manifest.enums.get(of.name)
    crossing = crossing_values(enum.values, enum.base.size, signed) if enum else ()
    if not crossing:
        return None
    return Difference(Kind.RANGE, f"{', '.join(crossing)} would read as another number")


def crossing_values(
    values: tuple[tuple[str, int], ...], size: int, signed: bool
) -> tuple[str, ...]:
    """The enumerators that an integer of this size and sign cannot hold."""
    low, high = (
        (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)
    )
    return tuple(name for name, value in values if not low <= value <= high)


def _pointers(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    if mine == theirs and not mine.is_record:
        return None
    if "void" in (mine.kind, theirs.kind):
        return Difference(Kind.ERASED, "one side does not say what it points to")
    if "function" in (mine.kind, theirs.kind):
        if mine.kind != theirs.kind:
            return Difference(Kind.CLASS, "one side points to code, the other to data")
        return _signatures(both, mine, theirs)
    mine, theirs = _element(mine), _element(theirs)
    if (mine.kind == "pointer") != (theirs.kind == "pointer"):
        other = theirs if mine.kind == "pointer" else mine
        paired = mine.is_record and both.library_record(mine.name) != ""
        if (_is_opaque(both, other) and not paired) or _is_erased_char(both, mine):
            return Difference(Kind.ERASED, "one side does not say what it points to")
        return Difference(Kind.DEPTH, "it points through another number of levels")
    if mine.is_record or theirs.is_record:
        if _is_opaque(both, mine) or _is_opaque(both, theirs):
            known = both.library_record(mine.name) == theirs.name
            return None if known else Difference(Kind.ERASED, "one side hides what it points to")
        if mine.is_record and theirs.is_record:
            return _records(both, mine, theirs)
        if _is_erased_char(both, mine):
            return Difference(Kind.ERASED, "one side does not say what it points to")
        return Difference(Kind.STRIDE, "the two sides step and read through it differently")
    inner = difference(both, mine, theirs)
    if inner is not None and inner.kind is Kind.HALF:
        return Difference(Kind.ERASED, inner.why)
    if inner is None or inner.kind in (
        Kind.ERASED,
        Kind.BOOL,
        Kind.DEPTH,
        Kind.CALLBACK,
        Kind.SIGN,
    ):
        return inner
    if _is_erased_char(both, mine):
        return Difference(Kind.ERASED, "one side does not say what it points to")
    return Difference(Kind.STRIDE, f"the two sides step through it differently: {inner.why}")


def _element(of: Type) -> Type:
    """What an array repeats: a pointer to an array is used like one to its first element."""
    while of.kind == "array":
        of = of.target
    return of


def _is_erased_char(both: Comparison, mine: Type) -> bool:
    """Ctypes bindings use `c_char_p` for any address that Python's bytes can fill."""
    return both.mirror.source == "ctypes" and mine.name == "char"


def _is_opaque(both: Comparison, of: Type) -> bool:
    if not of.is_record:
        return False
    return both.mirror.record(of) is None and both.library.record(of) is None


def _signatures(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    """Callbacks: called by the library, so that a wrong width is read from the wrong register."""
    if mine.args is None or theirs.args is None:
        return None
    if len(mine.args) != len(theirs.args):
        return Difference(
            Kind.CALLBACK,
            f"it takes {len(mine.args)} arguments, the library passes {len(theirs.args)}",
        )
    if conventions_differ(both, mine, theirs):
        return Difference(Kind.CALLBACK, "the library calls it by another convention")
    pairs = [*zip(mine.args, theirs.args, strict=True), (mine.target, theirs.target)]
    harmless = (Kind.ERASED, Kind.BOOL, Kind.SIGN, Kind.ADDRESS)
    for index, (one, other) in enumerate(pairs):
        found = difference(both, one, other)
        if found is None or found.kind in harmless:
            continue
        where = "its result" if index == len(mine.args) else f"its argument {index + 1}"
        return Difference(Kind.CALLBACK, f"{where} is {one} here and {other} in the library")
    return None


def conventions_differ(both: Comparison, mine: Type, theirs: Type) -> bool:
    """Whether two functions are called differently; only headers say how."""
    said = both.mirror.source == both.library.source == "header"
    return said and mine.convention != theirs.convention


def _arrays(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    inner = difference(both, mine.target, theirs.target)
    if inner is not None:
        if inner.kind in (Kind.WIDTH, Kind.CLASS):
            return Difference(Kind.STRIDE, f"its elements differ: {inner.why}")
        return inner
    # `[0]` is how older C and ctypes write a flexible array.
    if (mine.count or 0) != (theirs.count or 0):
        shown = ["no fixed count" if c is None else str(c) for c in (mine.count, theirs.count)]
        return Difference(Kind.COUNT, f"it has {shown[0]} of elements, the library's {shown[1]}")
    return None


def _records(both: Comparison, mine: Type, theirs: Type) -> Difference | None:
    """Records of one name are compared as records; of two names, by whether they look alike."""
    if both.library_record(mine.name) == theirs.name:
        return None
    one, other = both.mirror.record(mine), both.library.record(theirs)
    if one is None or other is None:
        return Difference(Kind.ERASED, "one side hides what it points to")
    if shape(both.mirror, one) == shape(both.library, other):
        return None
    return Difference(Kind.RECORD, "the two are different records")


def shape(manifest: Manifest, record: Record) -> tuple[tuple[int, int, str], ...]:
    """Offset, bits and class of every scalar in a record: what a register would hold."""
    found: list[tuple[int, int, str]] = []

    def add(of: Type, at: int, bits: int | None) -> None:
        inner = manifest.record(of)
        if inner is not None:
            for member in inner.fields:
                add(member.type, at + member.bit_offset, member.bit_width)
        elif of.kind == "array":
            step = manifest.size_of(of.target) * 8
            for index in range(min(of.count or 0, 64)):
                add(of.target, at + index * step, None)
        else:
            name = "float" if of.kind == "float" else "integer"
            found.append((at, manifest.size_of(of) * 8 if bits is None else bits, name))

    add(Type(record.kind, name=record.name), 0, None)
    return tuple(sorted(found))
