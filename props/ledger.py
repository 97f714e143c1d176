"""Known failures: which property fails on which kernel, why, and until when that is tolerated.

A TOML file lists them:

    [[known]]
    operation = "matvec_q4_0"
    provider = "ggml"
    variant = "simd"                      # left out: every variant
    property = "neighbours_are_invisible"
    issue = "#27"
    expires = 2027-03-01
    reason = "reads the scale of the next row"
    launch = false                        # never run it, as where it takes the machine down

A known failure that fails is reported and fails nothing. One that passes, or that has expired,
fails: the ledger only ever shrinks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path

from hotfire.errors import InputError

KNOWN = Path("ci/known_failures.toml")
"""The ledger, if none is named."""


@dataclass(frozen=True)
class Known:
    """One known failure.

    Args:
        operation, provider, property: where it shows.
        issue: that tracks it.
        expires: the first day on which it is not tolerated any more.
        reason: in words.
        variant: the kernel's variant, or "" for every one.
        launch: whether it may be run at all.
    """

    operation: str
    provider: str
    property: str
    issue: str
    expires: date
    reason: str
    variant: str = ""
    launch: bool = True

    def __str__(self) -> str:
        return f"{self.issue}, tolerated until {self.expires}: {self.reason}"


@dataclass(frozen=True)
class Ledger:
    """All known failures, as of a day."""

    known: Sequence[Known] = ()
    today: date = date.min

    def of(self, provider: str, operation: str, variant: str, stated: str) -> Known | None:
        """The entry that speaks of this property of this kernel, if there is one."""
        for each in self.known:
            if (each.provider, each.operation, each.property) == (provider, operation, stated) and (
                each.variant in ("", variant)
            ):
                return each
        return None

    def has_expired(self, entry: Known) -> bool:
        """Whether the entry is tolerated no longer."""
        return self.today >= entry.expires


def as_of_today(path: Path | None = None) -> Ledger:
    """The ledger at `path`; without one, `KNOWN` where there is such a file.

    Raises:
        InputError: as `load` does.
    """
    if path is None and not KNOWN.is_file():
        return Ledger()
    return load(path or KNOWN, datetime.now(UTC).date())


def load(path: Path, today: date) -> Ledger:
    """Reads a ledger.

    Raises:
        InputError: if it is no TOML, or an entry lacks a field, has an unknown one or one of
            another type.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("known", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    return Ledger([_entry(path, each) for each in entries], today)


def _entry(path: Path, entry: dict[str, object]) -> Known:
    types = {"expires": date, "launch": bool}
    names = [each.name for each in fields(Known)]
    for name, value in entry.items():
        if name not in names or type(value) is not types.get(name, str):
            raise InputError(
                f"{path}: {name} = {value!r}; expected {', '.join(names)}, expires a date, launch "
                "true or false, the others text"
            )
    missing = {"operation", "provider", "property", "issue", "expires", "reason"} - set(entry)
    if missing:
        raise InputError(f"{path}: an entry lacks {', '.join(sorted(missing))}")
    return Known(**entry)  # type: ignore[arg-type]
