"""Automatic mutants: one small change at a time to a kernel's source, as a slip would make it.

Comments, strings, preprocessor lines and whatever the written mutants guard are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^\s*#[^\n]*', re.DOTALL | re.MULTILINE
)
_PLANTED = re.compile(r"HOTFIRE_(?:MUTANT\(\s*\w+,|FAMILY_MUTANT\()\s*(\w+)")
_TERM = r"[\w.]+(?:\([^()]*\)|\[[^][]*\])?"
_INTEGER = r"(?<![\w.])\d+(?![\w.])"


@dataclass(frozen=True)
class Change:
    """One change to a source file.

    Args:
        kind: what sort of slip.
        line: its line number, from 1.
        start, end: the characters that are replaced.
        before, after: the text there, and what comes in its place.
    """

    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """The source with the change."""
        return source[: self.start] + self.after + source[self.end :]

    def __str__(self) -> str:
        return f"line {self.line}: {self.before} -> {self.after} ({self.kind})"


def changes(source: str) -> list[Change]:
    """Every change that this module knows to make to a source file, in its order."""
    text = _HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    text = _without_planted(text, set(_PLANTED.findall(source)))
    found = {
        (start, end, after): Change(
            kind, text.count("\n", 0, start) + 1, start, end, source[start:end], after
        )
        for kind, start, end, after in _slips(text)
    }
    return sorted(found.values(), key=lambda change: (change.start, change.end, change.after))


def _without_planted(text: str, names: set[str]) -> str:
    """The text with each statement blanked that a written mutant takes part in."""
    if not names:
        return text
    planted = re.compile(r"\b(?:" + "|".join(sorted(names)) + r")\b")

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0]) if planted.search(found[0]) else found[0]

    return re.sub(r"[^;{}]*[;{}]", blank, text)


def _slips(text: str) -> Iterator[tuple[str, int, int, str]]:
    """(kind, start, end, replacement)."""
    for found in re.finditer(r"(?<=\S) (<=|>=|<|>|==|!=) (?=\S)", text):
        other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}[found[1]]
        yield "bound", found.start(1), found.end(1), other
    for found in re.finditer(rf"[<>]=? ({_TERM})", text):
        for step in ("+ 1", "- 1"):
            yield "bound", found.start(1), found.end(1), f"({found[1]} {step})"
    for found in re.finditer(rf"({_TERM}) ([-/]) ({_TERM})", text):
        yield "swapped operands", found.start(), found.end(), f"{found[3]} {found[2]} {found[1]}"
    for found in re.finditer(rf"({_TERM}) ([-+*/]) ({_TERM})", text):
        yield "dropped term", found.start(), found.end(), found[1]
        yield "dropped term", found.start(), found.end(), found[3]
    for found in re.finditer(r"\[([^][]+)\]", text):
        yield "wrong index", found.start(1), found.end(1), f"{found[1]} + 1"
    for found in re.finditer(r"(?<=[\w)\]]) ([-+]) (?=[\w(])", text):
        yield "wrong sign", found.start(1), found.end(1), "+" if found[1] == "-" else "-"
    for found in re.finditer(r" ([-+*/])= ", text):
        yield "dropped term", found.start(1), found.end(1) + 1, "="
    for found in re.finditer(_INTEGER, text):
        yield "wrong constant", found.start(), found.end(), str(int(found[0]) + 1)
