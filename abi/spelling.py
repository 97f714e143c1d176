"""Names as several languages spell them: `token_data`, `TokenData`, `TOKEN_DATA_DTYPE`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RECORD_SUFFIX = re.compile(r"(?<=[a-z0-9])_?(dtype|struct)$|_(dt|t|s|st)$")


def plain(name: str) -> str:
    """A name without what its language's custom of spelling adds: case and underscores."""
    return name.replace("_", "").lower()


def plain_record(name: str) -> str:
    """A record's name without that, and without an ending that only says that it is a type."""
    return plain(_RECORD_SUFFIX.sub("", name.lower()))


def unique(names: Iterable[str], spelled: dict[str, str]) -> dict[str, str]:
    """Names by their plain spelling, without those that share one.

    Args:
        names: which to look at.
        spelled: each name's plain spelling.
    """
    found: dict[str, str] = {}
    double: set[str] = set()
    for name in names:
        if found.setdefault(spelled[name], name) != name:
            double.add(spelled[name])
    return {key: name for key, name in found.items() if key not in double}


def matching_labels(mine: Iterable[str], theirs: Iterable[str]) -> dict[str, str]:
    """Labels of one enum to those of another that mean the same: `Layer` to `SPLIT_MODE_LAYER`.

    C repeats the enum's name in each label, as labels share one namespace there.
    """
    own, others = list(mine), list(theirs)
    exact = {plain(label): label for label in others}
    prefix = _common_words(others)
    short = {plain("_".join(label.split("_")[prefix:])): label for label in others}
    found = {}
    for label in own:
        other = exact.get(plain(label)) or short.get(plain(label)) or _by_ending(label, others)
        if other:
            found[label] = other
    return found


def _common_words(labels: list[str]) -> int:
    """How many words all labels start with; each keeps one of its own."""
    words = [label.split("_") for label in labels]
    most = min((len(each) for each in words), default=1) - 1
    count = 0
    while count < most and len({each[count] for each in words}) == 1:
        count += 1
    return count


def _by_ending(label: str, others: list[str]) -> str:
    """The one label whose last words are the whole of another."""
    wanted = plain(label)
    found = [
        other
        for other in others
        if any(plain(other[at + 1 :]) == wanted for at, c in enumerate(other) if c == "_")
    ]
    return found[0] if len(found) == 1 else ""
