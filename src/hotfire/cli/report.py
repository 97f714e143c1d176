"""`hotfire report`: show a saved verdict again, in any format."""

from __future__ import annotations

from pathlib import Path

import click

from hotfire.cli.options import verdict_command
from hotfire.verdict import Verdict


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@verdict_command
def report(file: Path) -> Verdict:
    """Show the verdict in FILE (verdict.json) again; exits as the run did that wrote it."""
    from hotfire.report import read

    return read(file)
