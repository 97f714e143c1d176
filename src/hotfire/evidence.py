"""The evidence log: figures that were measured, append-only, one JSON object a line.

Each line carries the SHA-256 of the line before it, so that an edited or deleted line shows.
A figure is never removed: it is withdrawn by a later line that gives the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotfire.errors import InputError

START = "0" * 64
"""What the first line names as the hash of its predecessor."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the log.

    Args:
        id: first 12 digits of the line's SHA-256.
        record: the line itself: `figure`, `value`, `unit`, `command`, `commit`, `machine`,
            `time`, `scope`, or `withdraws` and `reason`.
        withdrawn: the reason, if a later line withdraws it.
    """

    id: str
    record: Mapping[str, Any]
    withdrawn: str = ""


def machine() -> dict[str, Any]:
    """The processor, its cores, the system and the Python that measured."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.processor() or platform.machine()
    return {
        "cpu": model,
        "n_cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def commit(folder: Path) -> str:
    """The commit of the checkout that holds `folder`, with `+` if it has changes, or "unknown"."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def read(log: Path) -> list[Entry]:
    """All entries, oldest first.

    Raises:
        InputError: if a line is not JSON, or does not follow from the line before.
    """
    entries: list[Entry] = []
    reasons: dict[str, str] = {}
    previous = START
    for number, line in enumerate(_lines(log), start=1):
        try:
            record = json.loads(line)
        except ValueError:
            raise InputError(f"{log}:{number} is not a JSON object; restore the line") from None
        if record.get("previous") != previous:
            raise InputError(
                f"{log}:{number} does not follow from the line before: expected previous "
                f"{previous[:12]}, got {str(record.get('previous'))[:12]}; the log is append-only, "
                "restore it"
            )
        previous = hashlib.sha256(line.encode()).hexdigest()
        entries.append(Entry(id=previous[:12], record=record))
        if "withdraws" in record:
            reasons[record["withdraws"]] = record["reason"]
    return [
        Entry(id=entry.id, record=entry.record, withdrawn=reasons.get(entry.id, ""))
        for entry in entries
    ]


def append(log: Path, record: Mapping[str, Any]) -> Entry:
    """Adds a line with time, commit and machine, and returns it.

    Raises:
        InputError: if the log is damaged, or `withdraws` names no earlier figure.
    """
    entries = read(log)
    if "withdraws" in record:
        _check_withdrawal(entries, record)
    lines = _lines(log)
    whole = {
        **record,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(log.parent),
        "machine": machine(),
        "previous": hashlib.sha256(lines[-1].encode()).hexdigest() if lines else START,
    }
    line = json.dumps(whole, sort_keys=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as out:
        out.write(line + "\n")
    return Entry(id=hashlib.sha256(line.encode()).hexdigest()[:12], record=whole)


def _check_withdrawal(entries: list[Entry], record: Mapping[str, Any]) -> None:
    figures = {entry.id for entry in entries if "figure" in entry.record and not entry.withdrawn}
    if record["withdraws"] not in figures:
        raise InputError(
            f"{record['withdraws']!r} is no standing figure; `hotfire evidence list` shows the ids"
        )
    if not str(record.get("reason", "")).strip():
        raise InputError("withdrawing a figure needs a reason; say why it no longer holds")


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
