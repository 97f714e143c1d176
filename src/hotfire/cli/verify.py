"""`hotfire verify`: the main job. Binding, kernels, a third party's kernels, engine, alarms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotfire import __version__, evidence
from hotfire.cli.options import command_line, verdict_command
from hotfire.cli.progress import Progress
from hotfire.errors import InputError, LibraryError
from hotfire.verdict import Status, Verdict, combine, judge

PROVIDERS = ("hotfire", "ggml")

ALARMS = ("rms_norm_short_sum", "matvec_q8_0_reads_past_end", "rms_norm_never_returns")
"""Mutants that must be found before a pass means anything: a wrong value, a fault, a hang."""


if TYPE_CHECKING:
    from hotfire.abi.manifest import Manifest


@click.command()
@click.option(
    "--profile",
    type=click.Choice(["quick", "full"]),
    default="quick",
    show_default=True,
    help="How many examples a property.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of every search.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder for verdict.json and verdict.html.",
)
@verdict_command
def verify(profile: str, seed: int, out: Path) -> Verdict:
    """Check the binding, fuzz our kernels and libggml's, compare our engine with the reference,
    prove that the alarms ring.

    What was measured before an interruption is kept in the two files.
    """
    from hotfire.report import render, write_whole

    start = time.monotonic()
    parts: list[Verdict] = []
    interrupted = False
    with Progress(0) as progress:
        try:
            for part in _parts(profile, seed, progress):
                parts.append(part)
        except KeyboardInterrupt:
            interrupted = True
    verdict = combine(
        "verify",
        parts,
        scope=_scope(profile, seed, interrupted),
        reproduce=command_line(),
        measurements={**_totals(parts), "seconds": round(time.monotonic() - start, 1)},
    )
    if interrupted:
        verdict = replace(verdict, reason="interrupted; the parts above were completed")
    for name, form in (("verdict.json", "json"), ("verdict.html", "html")):
        write_whole(out / name, render(verdict, form))
    return verdict


def _parts(profile: str, seed: int, progress: Progress) -> Iterator[Verdict]:
    progress.step("binding")
    yield check_binding()
    for provider in PROVIDERS:
        yield from _fuzzed(provider, profile, seed, progress)
    yield _engine(progress)
    yield _alarms(profile, seed, progress)


def check_binding() -> Verdict:
    """Our own binding against the header's manifest, the library's DWARF and its layout table."""
    from hotfire import lib
    from hotfire.abi import manifest
    from hotfire.abi.build import drift
    from hotfire.abi.layout import compare_layout
    from hotfire.abi.readers import dwarf

    library = lib.load()
    mirror = lib.mirror()
    saved = library.path.parent / "hotfire.manifest.json"
    header = manifest.load(saved.read_text(encoding="utf-8"), saved.name)
    built = dwarf.read(library.path, names=header.names())
    entries = list(lib.layout(library.ffi, library.lib))
    sides = (
        ("header", drift(mirror, header), _counts(header)),
        ("debug information", drift(mirror, built), _counts(built)),
        (
            "loaded library's own table",
            compare_layout(mirror, entries),
            {"n_entries": len(entries)},
        ),
    )
    parts = [
        Verdict(
            name=f"binding against the {name}",
            status=judge(findings),
            findings=tuple(findings),
            measurements=counts,
        )
        for name, findings, counts in sides
    ]
    return combine("binding", parts, reproduce="hotfire verify")


def _counts(side: Manifest) -> dict[str, int]:
    return {"n_records": len(side.records), "n_functions": len(side.functions)}


def _fuzzed(provider: str, profile: str, seed: int, progress: Progress) -> Iterator[Verdict]:
    """One part a provider, with a part of its own for every kernel; also when interrupted."""
    from hotfire.props.ledger import as_of_today
    from hotfire.props.runner import Runner
    from hotfire.props.search import kernels_of
    from hotfire.props.sweep import check_kernels, n_jobs

    parts: list[Verdict] = []
    ledger = as_of_today()
    name = f"kernels of {provider}"
    reproduce = f"hotfire props run --provider {provider} --profile {profile} --seed {seed}"
    try:
        runner = Runner(provider)
    except InputError as error:
        yield Verdict(name=name, status=Status.SKIPPED, reason=str(error), reproduce=reproduce)
        return
    interrupted = False
    with runner:
        kernels = list(kernels_of(runner))
        progress.more(len(kernels))
        options = {"profile": profile, "seed": seed, "ledger": ledger}
        found = check_kernels(provider, runner, kernels, n_jobs(provider), **options)
        try:
            for kernel in kernels:
                progress.step(f"{provider} {kernel.operation} {kernel.variant}")
                parts.append(next(found))
        except KeyboardInterrupt:
            interrupted = True
    version = {"provider": provider, "version": runner.version}
    yield combine(name, parts, scope=version, reproduce=reproduce)
    if interrupted:
        raise KeyboardInterrupt


def _engine(progress: Progress) -> Verdict:
    from hotfire.engines.gate import FAULTS, PROMPTS, gate

    progress.more(PROMPTS.n_prompts + len(FAULTS))
    return combine("engine on nano", list(gate(progress.step)), reproduce="hotfire verify")


def _alarms(profile: str, seed: int, progress: Progress) -> Verdict:
    from hotfire.props import mutants

    progress.more(len(ALARMS))
    parts = []
    try:
        for name in ALARMS:
            progress.step(name)
            parts.append(mutants.hunt(mutants.named(name), profile, seed))
    except LibraryError as error:
        return Verdict(name="alarms", status=Status.SKIPPED, reason=str(error))
    return combine("alarms", parts, reproduce=f"hotfire props mutants {' '.join(ALARMS)}")


def _scope(profile: str, seed: int, interrupted: bool) -> dict[str, Any]:
    scope: dict[str, Any] = {
        "hotfire": __version__,
        "commit": evidence.commit(Path.cwd()),
        "profile": profile,
        "seed": seed,
        "machine": evidence.machine(),
    }
    return {**scope, "interrupted": True} if interrupted else scope


def _totals(parts: list[Verdict]) -> dict[str, int]:
    """Over all kernels, that is operations in a variant: cases and distinct shapes, summed."""
    kernels = [kernel for part in parts for kernel in part.parts if "operation" in kernel.scope]
    fuzzed = [kernel for kernel in kernels if "n_cases" in kernel.measurements]
    return {
        "n_kernels": len(fuzzed),
        "n_kernels_skipped": len(kernels) - len(fuzzed),
        "n_variants": len({(each.scope["provider"], each.scope["variant"]) for each in fuzzed}),
        "n_operations": len({kernel.scope["operation"] for kernel in fuzzed}),
        "n_cases_in_all": sum(kernel.measurements["n_cases"] for kernel in fuzzed),
        "n_shapes_in_all": sum(kernel.measurements["n_shapes"] for kernel in fuzzed),
    }
