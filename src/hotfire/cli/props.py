"""`hotfire props`: fuzz kernels, list them, hunt mutants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hotfire.cli.options import verdict_command
from hotfire.cli.progress import Progress
from hotfire.verdict import Verdict, combine

_profile = click.option(
    "--profile",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many examples a property.",
)
_seed = click.option("--seed", type=int, default=0, show_default=True, help="Of every search.")
_provider = click.option(
    "--provider",
    default="hotfire",
    show_default=True,
    help="hotfire, ggml, hotfire-mutants:NAME, hotfire-threads:N, emulator:32 or :64, "
    "cuda:FILE.cubin, hip:FILE.co, or a Python file with provide().",
)


@click.group()
def props() -> None:
    """Fuzz kernels of any library against the float64 reference."""


@props.command()
@click.argument("operations", nargs=-1)
@_provider
@click.option("--variant", help="Only this variant of each operation.")
@click.option("--property", "only", help="Only this property.")
@click.option("--case", "text", help="Run this one case, as a finding prints it.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.01),
    default=5.0,
    show_default=True,
    help="Seconds that one call may take before it is hung.",
)
@click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ledger of known failures; ci/known_failures.toml where there is one, as for verify.",
)
@click.option(
    "--replay",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/replay"),
    show_default=True,
    help="Where failures are kept, to run again or to export.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Kernels that are searched at once; one a processor, on a device one, unless given.",
)
@_profile
@_seed
@verdict_command
def run(
    operations: tuple[str, ...],
    provider: str,
    variant: str | None,
    only: str | None,
    text: str | None,
    timeout: float,
    known: Path | None,
    folder: Path,
    jobs: int | None,
    profile: str,
    seed: int,
) -> Verdict:
    """Search the properties of OPERATIONS, of all that the provider offers if none is named."""
    from hotfire.cli.options import command_line
    from hotfire.errors import InputError
    from hotfire.props.ledger import as_of_today
    from hotfire.props.properties import PROPERTIES
    from hotfire.props.runner import Runner
    from hotfire.props.search import check_case, kernels_of
    from hotfire.props.sweep import check_kernels, n_jobs

    ledger = as_of_today(known)
    names = [stated.name for stated in PROPERTIES]
    if only is not None and only not in names:
        raise InputError(f"property {only!r} is not known; expected one of: {', '.join(names)}")
    if text is not None and len(operations) != 1:
        raise InputError("--case needs exactly one operation; name it before the options")
    parts: list[Verdict] = []
    with Runner(provider, seconds=timeout) as runner:
        kernels = list(kernels_of(runner, operations, variant))
        scope = {"provider": provider, "version": runner.version, "profile": profile, "seed": seed}
        with Progress(len(kernels)) as progress, _interruptible(scope):
            if text is None:
                options = {"profile": profile, "seed": seed, "only": only, "ledger": ledger}
                found = check_kernels(
                    provider, runner, kernels, jobs or n_jobs(provider), **options
                )
            else:
                found = (check_case(runner, kernel, text, only) for kernel in kernels)
            for kernel in kernels:
                progress.step(f"{kernel.operation} {kernel.variant}")
                parts.append(next(found))
    if text is None:
        _keep(parts, folder)
    return combine(
        f"props {provider}",
        parts,
        scope=scope,
        reason="interrupted; the kernels above were completed" if "interrupted" in scope else "",
        reproduce=command_line(),
        measurements={"n_cases_in_all": sum(part.measurements.get("n_cases", 0) for part in parts)},
    )


@contextmanager
def _interruptible(scope: dict[str, Any]) -> Iterator[None]:
    """Ends early on an interrupt and marks the scope, so that what was measured is kept."""
    try:
        yield
    except KeyboardInterrupt:
        scope["interrupted"] = True


def _keep(parts: list[Verdict], folder: Path) -> None:
    """Saves each failure, and says where on stderr."""
    from hotfire.props.replay import save

    for path in save((found for part in parts for found in part.findings), folder):
        click.echo(f"kept: {path}", err=True)


@props.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@verdict_command
def replay(paths: tuple[Path, ...]) -> Verdict:
    """Run saved failures again: the files PATHS, those in the folders PATHS, or all kept."""
    from hotfire.cli.options import command_line
    from hotfire.props import replay as kept
    from hotfire.props.runner import Runner
    from hotfire.props.search import check_case, kernels_of

    parts: list[Verdict] = []
    for each in map(kept.read, kept.files(paths or [Path("out/replay")])):
        with Runner(each.provider) as runner:
            (kernel,) = kernels_of(runner, [each.operation], each.variant)
            parts.append(check_case(runner, kernel, each.case, each.property))
    return combine("props replay", parts, reproduce=command_line())


@props.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write there.")
def export(path: Path, output: Path | None) -> None:
    """Write the saved failure PATH as one C file that needs only a compiler and the library.

    A relation makes several calls; it is run once more to see which of them is the first wrong one.
    """
    from hotfire.cli.options import fail
    from hotfire.errors import HotfireError
    from hotfire.props import export as writing
    from hotfire.props.replay import read
    from hotfire.report import write_whole

    try:
        text = writing.export_saved(read(path))
    except HotfireError as error:
        fail(error)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text)


@props.command("list")
@_provider
def list_(provider: str) -> None:
    """Print what a provider offers: operation, variant, and why it cannot run here if so."""
    from hotfire.cli.options import fail
    from hotfire.errors import HotfireError
    from hotfire.props.runner import Runner

    try:
        with Runner(provider) as runner:
            for kernel in runner.kernels:
                click.echo(
                    f"{kernel.operation:20} {kernel.variant:10} {kernel.unavailable}".rstrip()
                )
    except HotfireError as error:
        fail(error)


@props.command()
@click.argument("names", nargs=-1)
@click.option("--property", "only", default="", help="Only this property may find them.")
@click.option(
    "--state", is_flag=True, help="The faults of state, each by the property that must name it."
)
@_profile
@_seed
@verdict_command
def mutants(names: tuple[str, ...], only: str, state: bool, profile: str, seed: int) -> Verdict:
    """Hunt the mutants NAMES, or all: passed if every one is found."""
    from hotfire.cli.options import command_line
    from hotfire.errors import InputError
    from hotfire.props import mutants as hunting
    from hotfire.props.state_faults import state_faults

    if state and (names or only):
        raise InputError("--state names its mutants and properties itself; leave the others out")
    if state:
        wanted = state_faults()
    else:
        wanted = [
            (each, only) for each in [hunting.named(name) for name in names] or hunting.mutants()
        ]
    with Progress(len(wanted) + 1) as progress:
        verdict = hunting.hunt_all(wanted, profile, seed, progress.step)
    return replace(verdict, reproduce=command_line())
