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
        text = dump(sources.read(side, _reading(**reading)), locations=locations)
    except HotfireError as error:
        options.fail(error)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text)


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
    return check.diff(a, b, mine, theirs, options.command_line())


@abi.command()
@click.option(
    "--header", "headers", multiple=True, type=_FILE, help="What users of the library include."
)
@click.option("--mirror", "mirrors", multiple=True, help="A side that mirrors it.")
@click.option("--library", type=_FILE, help="The built library, or a .txt list of its symbols.")
@_reading_options
@options.verdict_command
def check(
    headers: tuple[Path, ...], mirrors: tuple[str, ...], library: Path | None, **reading: Any
) -> Verdict:
    """Check mirrors against a library's headers and exports."""
    from hotfire.abi import check as checking

    return checking.check(
        headers, mirrors, _reading(**reading), library=library, reproduce=options.command_line()
    )


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
        library = sources.read(side, _reading(**reading))
        text = emitting.emit(library, lang, form, frozenset(names) or None)
    except HotfireError as error:
        options.fail(error)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text)


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
