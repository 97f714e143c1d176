"""The `hotfire` command. Each subcommand is a module of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from hotfire import __version__

_COMMANDS = {
    "abi": "Compare layouts of a C interface and its mirrors.",
    "evidence": "Read and add to the log of measured figures.",
    "exact": "Compare two engines, logit by logit.",
    "props": "Fuzz kernels against the reference.",
    "report": "Show a saved verdict.json again.",
    "verify": "Run the main job: binding, kernels, a third party's kernels.",
}


class _Lazy(click.Group):
    """A group that imports a subcommand only when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"hotfire.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hotfire")
def main() -> None:
    """Proves that native LLM engines are right before anyone trusts them.

    Every command prints one verdict last and exits 0 passed, 1 failed, crashed or hung,
    2 bad input, 3 unsettled, mistrusted or nothing run, 130 interrupted.
    """
