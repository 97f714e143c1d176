"""A verdict for a terminal: a table of parts, every finding, the verdict last."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotfire.verdict import Finding, Severity, Status, Verdict

COLOURS = {
    Status.PASSED: "green",
    Status.SKIPPED: "dim",
    Status.MISTRUSTED: "yellow",
    Status.UNSETTLED: "yellow",
}
FILE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""

MAX_INFO = 5
"""Findings that only inform are folded beyond this many."""


def render(verdict: Verdict) -> str:
    """The whole text; coloured if standard output is a terminal."""
    out = io.StringIO()
    is_terminal = sys.stdout.isatty()
    console = Console(
        file=out,
        force_terminal=is_terminal and "NO_COLOR" not in os.environ,
        width=max(80, shutil.get_terminal_size().columns) if is_terminal else FILE_WIDTH,
        highlight=False,
        soft_wrap=True,
    )
    for title, parts in _groups(verdict):
        console.print(_table(title, parts))
        console.print()
    gating = [found for found in verdict.all_findings() if found.severity.gates]
    informing = [found for found in verdict.all_findings() if not found.severity.gates]
    for found in gating + informing[:MAX_INFO]:
        console.print(_finding(found))
    if len(informing) > MAX_INFO:
        console.print(
            f"and {len(informing) - MAX_INFO} more that only inform; --format json has all"
        )
    console.print(_summary(verdict))
    return out.getvalue()


def _groups(verdict: Verdict) -> Iterator[tuple[Text, list[Verdict]]]:
    """The parts without parts of their own in one table, then a table for each of the others."""
    leaves = [part for part in verdict.parts if not part.parts]
    if leaves:
        yield Text(), leaves
    for part in verdict.parts:
        if part.parts:
            title = Text.assemble(f"{part.name}: ", _status(part.status))
            yield title, [leaf for _, group in _groups(part) for leaf in group]


def _table(title: Text, parts: list[Verdict]) -> Table:
    names = list(dict.fromkeys(name for part in parts for name in part.measurements))
    has_notes = any(part.reason for part in parts)
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False,
        header_style="dim",
    )  # fmt: skip
    table.add_column("verdict")
    table.add_column("what", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    if has_notes:
        table.add_column("note", overflow="fold")
    for part in parts:
        figures = [Text(_figure(part.measurements.get(name, ""))) for name in names]
        notes = [Text(part.reason)] if has_notes else []
        table.add_row(_status(part.status), Text(part.name), *figures, *notes)
    return table


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _status(status: Status) -> Text:
    return Text(status.value, style=COLOURS.get(status, "bold red"))


def _finding(found: Finding) -> Text:
    colour = "bold red" if found.severity is Severity.MEMORY_UNSAFE else "red"
    text = Text()
    text.append(f"{found.severity.value}: ", style=colour if found.severity.gates else "dim")
    subject = " ".join(f"{key}={value}" for key, value in found.subject.items() if value)
    text.append(f"{found.rule}  {subject}\n")
    text.append(f"  {found.message}\n")
    if found.location:
        text.append(f"  at {found.location}\n")
    if found.remedy:
        text.append(f"  remedy: {found.remedy}\n")
    if found.reproduce:
        text.append(f"  reproduce: {found.reproduce}\n", style="cyan")
    return text


def _summary(verdict: Verdict) -> Text:
    text = Text()
    scope = ", ".join(f"{key}: {_short(value)}" for key, value in verdict.scope.items())
    if scope:
        text.append(f"scope: {scope}\n")
    for name, value in verdict.measurements.items():
        text.append(f"{name}: {_figure(value)}\n")
    for name, count in verdict.transitions.items():
        text.append(f"transition {name}: {count}\n")
    if verdict.reproduce:
        text.append(f"reproduce: {verdict.reproduce}\n")
    text.append(f"{verdict.name}: ")
    text.append(_status(verdict.status))
    if verdict.reason:
        text.append(f" ({verdict.reason})")
    return text


def _short(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
