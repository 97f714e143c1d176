"""`hotfire evidence`: list, add and withdraw figures."""

from __future__ import annotations

from pathlib import Path

import click

from hotfire import evidence as log_file
from hotfire.cli.options import fail
from hotfire.errors import HotfireError

DEFAULT_LOG = Path("ci/evidence/figures.jsonl")

_log = click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_LOG,
    show_default=True,
    help="The JSON Lines file.",
)


@click.group()
def evidence() -> None:
    """Read and add to the append-only log of measured figures."""


@evidence.command("list")
@_log
@click.option("--all", "everything", is_flag=True, help="Withdrawn figures too.")
def list_(log: Path, everything: bool) -> None:
    """Print the figures that stand, oldest first."""
    try:
        entries = log_file.read(log)
    except HotfireError as error:
        fail(error)
    shown = 0
    for entry in entries:
        record = entry.record
        if "figure" not in record or (entry.withdrawn and not everything):
            continue
        shown += 1
        click.echo(f"{entry.id}  {record['figure']} = {record['value']} {record['unit']}".rstrip())
        machine = record["machine"]
        where = record.get("device") or machine["cpu"]
        click.echo(f"    {record['time']}  commit {record['commit'][:12]}  {where}")
        click.echo(f"    {record['command']}")
        if entry.withdrawn:
            click.echo(f"    withdrawn: {entry.withdrawn}")
    click.echo(f"{shown} figures, {log}")


@evidence.command()
@_log
@click.argument("figure")
@click.argument("value", type=float)
@click.option("--unit", default="", help="What the value counts.")
@click.option("--command", required=True, help="The command that measures it again.")
@click.option("--device", default="", help="The accelerator, if one measured.")
def add(log: Path, figure: str, value: float, unit: str, command: str, device: str) -> None:
    """Append a figure with the time, the commit and this machine."""
    record = {"figure": figure, "value": value, "unit": unit, "command": command}
    _append(log, {**record, **({"device": device} if device else {})})


@evidence.command()
@_log
@click.argument("id_", metavar="ID")
@click.option("--reason", required=True, help="Why it no longer holds.")
def withdraw(log: Path, id_: str, reason: str) -> None:
    """Withdraw a figure; its line stays."""
    _append(log, {"withdraws": id_, "reason": reason})


def _append(log: Path, record: dict[str, object]) -> None:
    try:
        entry = log_file.append(log, record)
    except HotfireError as error:
        fail(error)
    click.echo(f"{entry.id}  appended to {log}")
