"""`hotfire abi`: layouts of a C interface, and whether its mirrors still match."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotfire.cli import options
from hotfire.errors import HotfireError
from hotfire.verdict import Verdict

if TYPE_CHECKING:
    from hotfire.abi.sources import Reading

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def abi() -> None:
    """Compare layouts of a C interface and its mirrors.

    A side is a header, a manifest.json, a library with debug information, or
    ctypes:FILE_OR_MODULE, cffi:FILE_OR_MODULE, exports:FILE.
    """


def _reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how headers and mirrors are read."""
    for option in (
        click.option("--python", default="", help="Interpreter that can import the mirror."),
        click.option(
            "--language", type=click.Choice(["c", "c++"]), default="c", help="Of headers."
        ),
        click.option(
            "--target", default="", help="Target triple of headers; this machine's if left out."
        ),
        click.option(
            "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro."
        ),
        click.option(
            "-I", "include", multiple=True, type=_FOLDER, help="Search a folder for headers."
        ),
    ):
        function = option(function)
    return function


def _reading(
    include: tuple[Path, ...], defines: tuple[str, ...], target: str, language: str, python: str
) -> Reading:
    from hotfire.abi.sources import Reading

    return Reading(include, defines, target, language, python)


@abi.command()
@click.argument("side")
@_reading_options
@click.option("-o", "--output", type=_FILE, help="Write there instead of to standard output.")
@click.option("--locations", is_flag=True, help="Write file and line of each item.")
def manifest(side: str, output: Path | None, locations: bool, **reading: Any) -> None:
    """Write the manifest of one side: sorted, reproducible, to be committed."""
    from hotfire.abi import sources
    from hotfire.abi.manifest import dump

    try:
        with sources.told(side):
            text = dump(sources.read(side, _reading(**reading)), locations=locations)
        _write(text, output)
    except HotfireError as error:
        options.fail(error)


def _write(text: str, output: Path | None) -> None:
    from hotfire.abi import files

    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text)


@abi.command()
@click.argument("a")
@click.argument("b")
@_reading_options
@click.option("--library-define", multiple=True, metavar="NAME[=VALUE]", help="Define for B alone.")
@options.verdict_command
def diff(a: str, b: str, library_define: tuple[str, ...], **reading: Any) -> Verdict:
    """Compare A, the mirror that was written, with B, the library that is met."""
    from dataclasses import replace

    from hotfire.abi import check

    mine = _reading(**reading)
    theirs = replace(mine, defines=mine.defines + library_define)
    return check.diff(a, b, mine, theirs, reproduce=options.command_line(), show=_show)


def _show(text: str) -> None:
    """Prints two layouts side by side, where a person reads the verdict."""
    chosen = click.get_current_context().params
    if chosen.get("form") == "text" and chosen.get("output") is None:
        click.echo(f"{text}\n")


@abi.command()
@click.option("--header", "headers", multiple=True, type=_FILE, help="What users include.")
@click.option("--mirror", "mirrors", multiple=True, help="A side that mirrors it.")
@click.option("--library", type=_FILE, help="The built library, or a .txt list of its symbols.")
@click.option("--wheel", type=_FILE, help="A wheel: do its libraries keep its tag's promise?")
@click.option("--paint", is_flag=True, help="Call the library's functions that return records.")
@click.option("--confirm", default="", metavar="CC", help="A C compiler that must agree.")
@click.option("--compile-commands", type=_FILE, help="Take defines and folders from a build.")
@click.option("--source", default="", help="The source in it that counts.")
@click.option("--config", type=_FILE, help="The hotfire.toml to run without other arguments.")
@click.option("--write-baseline", is_flag=True, help="Record what gates now as known.")
@click.option(
    "--write-manifests", is_flag=True, help="Write the manifests that hotfire.toml names."
)
@click.option("--only-new", is_flag=True, help="Leave out what the baseline knows.")
@_reading_options
@options.verdict_command
def check(
    headers: tuple[Path, ...],
    mirrors: tuple[str, ...],
    library: Path | None,
    wheel: Path | None,
    paint: bool,
    confirm: str,
    compile_commands: Path | None,
    source: str,
    config: Path | None,
    write_baseline: bool,
    write_manifests: bool,
    only_new: bool,
    **reading: Any,
) -> Verdict:
    """Check mirrors against a library's headers and exports; all of hotfire.toml by default."""
    from hotfire.abi import check as checking

    said = options.command_line()
    if not (headers or mirrors or library or wheel):
        from hotfire.abi import project

        return project.run(
            config or Path("hotfire.toml"),
            reproduce=said,
            write_baseline=write_baseline,
            write_manifests=write_manifests,
            only_new=only_new,
            show=_show,
        )
    how = _reading(**reading)
    if compile_commands:
        from hotfire.abi import compile_commands as commands

        how = commands.apply(how, compile_commands, source)
    chosen = checking.Options(
        library=library, wheel=wheel, paint=paint, confirm=confirm, reproduce=said, show=_show
    )
    return checking.check(headers, mirrors, how, chosen)


@abi.command()
def rules() -> None:
    """List every rule, why it matters, and what to do about it."""
    from hotfire.abi.checks import RULES

    for name, rule in sorted(RULES.items()):
        click.echo(f"{name}\n  {rule.reason}\n  remedy: {rule.remedy}")


@abi.command()
@click.argument("side")
@click.option("--lang", type=click.Choice(["c", "rust", "ctypes", "cffi"]), required=True)
@click.option(
    "--form",
    type=click.Choice(["assertions", "declarations"]),
    default="assertions",
    show_default=True,
    help="Assertions to compile in, or the corrected declarations.",
)
@click.option("--name", "names", multiple=True, help="Only this record, enum or function.")
@_reading_options
@click.option("-o", "--output", type=_FILE, help="Write there instead of to standard output.")
def emit(
    side: str, lang: str, form: str, names: tuple[str, ...], output: Path | None, **reading: Any
) -> None:
    """Write what a mirror compiles in so that it cannot drift from SIDE."""
    from hotfire.abi import emit as emitting
    from hotfire.abi import sources

    try:
        with sources.told(side):
            library = sources.read(side, _reading(**reading))
            text = emitting.emit(library, lang, form, frozenset(names) or None)
        _write(text, output)
    except HotfireError as error:
        options.fail(error)


@abi.command()
@click.option(
    "--output",
    type=_FILE,
    default=Path("native/include/hotfire_kernels.h"),
    show_default=True,
    help="The header to write.",
)
def header(output: Path) -> None:
    """Write the kernels' C header from the specs in ref/ops."""
    from hotfire.ref.c_header import kernel_header
    from hotfire.report import write_whole

    try:
        write_whole(output, kernel_header())
    except HotfireError as error:
        options.fail(error)
    click.echo(f"wrote {output}")
