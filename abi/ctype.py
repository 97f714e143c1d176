"""C types as values, and as the text that stands for them in a manifest.

`u32`, `*struct batch`, `[12]f32`, `fn(*void, i32) bool`: short enough to read in a diff.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hotfire.errors import InputError


@dataclass(frozen=True, slots=True)
class Type:
    """A C type without qualifiers and with every typedef resolved.

    Args:
        kind: void, bool, int, float, pointer, array, struct, union, enum, function or bytes
            (something of a known size that no other kind describes).
        size: bytes, for bool, int, float and bytes; the others are sized by the manifest.
        signed: for int.
        name: of the struct, union or enum; "char" for the int that is plain `char`.
        to: what a pointer points to, an array repeats, a function returns.
        count: elements of an array; None for a flexible one.
        args: of a function; None where the mirror does not say.
        variadic: whether a function takes more arguments than are named.
        convention: how a function is called, where it is not the target's usual way.
    """

    kind: str
    size: int = 0
    signed: bool = False
    name: str = ""
    to: Type | None = None
    count: int | None = None
    args: tuple[Type, ...] | None = ()
    variadic: bool = False
    convention: str = ""

    @property
    def is_record(self) -> bool:
        """Whether it is a struct or a union."""
        return self.kind in ("struct", "union")

    @property
    def is_callback(self) -> bool:
        """Whether it is a pointer to a function."""
        return self.kind == "pointer" and self.target.kind == "function"

    @property
    def target(self) -> Type:
        """What a pointer points to, an array repeats, a function returns; void if nothing."""
        return self.to if self.to is not None else VOID

    def __str__(self) -> str:
        if self.kind in ("int", "float"):
            letter = "f" if self.kind == "float" else "i" if self.signed else "u"
            return self.name or f"{letter}{self.size * 8}"
        if self.kind == "pointer":
            return f"*{self.target}"
        if self.kind == "array":
            return f"[{'' if self.count is None else self.count}]{self.target}"
        if self.kind == "function":
            args = ["?"] if self.args is None else [str(arg) for arg in self.args]
            word = f"fn@{self.convention}" if self.convention else "fn"
            return f"{word}({', '.join(args + ['...'] * self.variadic)}) {self.target}"
        if self.kind == "bytes":
            return f"bytes{self.size}"
        return f"{self.kind} {self.name}" if self.name else self.kind


VOID = Type("void")
BOOL = Type("bool", 1)
CHAR = Type("int", 1, True, "char")


def integer(size: int, signed: bool) -> Type:
    """An integer of `size` bytes."""
    return Type("int", size, signed)


def floating(size: int) -> Type:
    """A floating-point number of `size` bytes."""
    return Type("float", size)


def pointer(to: Type) -> Type:
    """A pointer to `to`."""
    return Type("pointer", to=to)


def array(of: Type, count: int | None) -> Type:
    """`count` of `of` in a row; None for a flexible array."""
    return Type("array", to=of, count=count)


_SCALAR = re.compile(r"([iuf])(\d+)\b")
_NAMED = re.compile(r"(struct|union|enum)(?: ([^,()\s]+))?")
_ARRAY = re.compile(r"\[(\d*)\]")
_CALL = re.compile(r"fn(?:@(\w+))?\(")
_BYTES = re.compile(r"bytes(\d+)\b")


def parse_type(text: str) -> Type:
    """The type that its text in a manifest names.

    Raises:
        InputError: if the text is no type.
    """
    found, end = _parse(text, 0)
    if end != len(text):
        raise InputError(f"expected a type such as `*struct batch`, got {text!r}")
    return found


def _parse(text: str, at: int) -> tuple[Type, int]:
    for word, fixed in (("void", VOID), ("bool", BOOL), ("char", CHAR)):
        if text.startswith(word, at):
            return fixed, at + len(word)
    if text.startswith("*", at):
        inner, end = _parse(text, at + 1)
        return pointer(inner), end
    if match := _ARRAY.match(text, at):
        inner, end = _parse(text, match.end())
        return array(inner, int(match[1]) if match[1] else None), end
    if match := _SCALAR.match(text, at):
        size = int(match[2]) // 8
        return (floating(size) if match[1] == "f" else integer(size, match[1] == "i")), match.end()
    if match := _CALL.match(text, at):
        return _parse_function(text, match.end(), match[1] or "")
    if match := _NAMED.match(text, at):
        return Type(match[1], name=match[2] or ""), match.end()
    if match := _BYTES.match(text, at):
        return Type("bytes", int(match[1])), match.end()
    raise InputError(f"expected a type such as `u32` or `*struct batch`, got {text!r}")


def _parse_function(text: str, at: int, convention: str) -> tuple[Type, int]:
    args: list[Type] | None = []
    variadic = False
    while not text.startswith(")", at):
        if text.startswith("...", at):
            variadic, at = True, at + 3
        elif text.startswith("?", at):
            args, at = None, at + 1
        else:
            arg, at = _parse(text, at)
            if args is not None:
                args.append(arg)
        if text.startswith(", ", at):
            at += 2
        elif not text.startswith(")", at):
            raise InputError(f"expected `,` or `)` in the type {text!r} at character {at}")
    if not text.startswith(") ", at):
        raise InputError(f"expected a return type after `)` in the type {text!r}")
    returns, end = _parse(text, at + 2)
    known = None if args is None else tuple(args)
    found = Type("function", to=returns, args=known, variadic=variadic, convention=convention)
    return found, end
