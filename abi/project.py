"""`hotfire abi check` without arguments: every library of `hotfire.toml`, on every target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotfire.abi import check, compile_commands, config, sources, target, waivers
from hotfire.abi.check import Show, silent
from hotfire.abi.checks import versions
from hotfire.abi.checks.base import Rule, finding
from hotfire.abi.config import Library
from hotfire.abi.files import write
from hotfire.abi.manifest import Manifest, dump
from hotfire.abi.sidebyside import text_diff
from hotfire.abi.sources import Reading
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity, Verdict, combine, judge

MANIFEST_CHANGED = Rule(
    "MANIFEST_CHANGED",
    "the interface is no longer the one that was committed",
    "look at the difference, then write the manifest again with --write-manifests",
)


def run(path: Path, *, reproduce: str = "", **how: Any) -> Verdict:
    """The verdict of a project.

    Args:
        path: its hotfire.toml.
        reproduce: the command line that runs it again.
        how: what `check_library` takes.

    Raises:
        InputError: if something is missing or cannot be read.
    """
    parts = [part for library in config.load(path) for part in check_library(library, **how)]
    return combine(f"abi check {path.name}", parts, reproduce=reproduce)


def check_library(
    library: Library,
    *,
    write_baseline: bool = False,
    write_manifests: bool = False,
    only_new: bool = False,
    show: Show = silent,
) -> list[Verdict]:
    """The verdicts of one library: its manifest and its mirrors, on every target.

    Args:
        library: as the project's file names it.
        write_baseline: record what gates now as known.
        write_manifests: write the manifests that the file names.
        only_new: leave out what a baseline knows, instead of showing it as info.
        show: is given the two layouts of each record that drifted, as text.
    """
    verdicts = [
        verdict
        for name in library.targets or (target.host(),)
        for verdict in _target(library, name, write_manifests, show)
    ]
    if write_baseline and library.baseline:
        found = [each for verdict in verdicts for each in verdict.findings]
        write(library.baseline, waivers.baseline_text(found))
    known = waivers.read_baseline(library.baseline) if library.baseline else []
    accepted = [_accepted(library, verdict, known, only_new) for verdict in verdicts]
    everything = [found for verdict in verdicts for found in verdict.findings]
    unused = tuple(waivers.unused(library.waivers, everything))
    return [replace(accepted[0], findings=accepted[0].findings + unused), *accepted[1:]]


def _accepted(
    library: Library, verdict: Verdict, known: list[dict[str, Any]], only_new: bool
) -> Verdict:
    """A verdict after the baseline and the waivers were taken into account."""
    findings = waivers.without_known(verdict.findings, known)
    if only_new:
        findings = [each for each in findings if waivers.key_of(each) not in known]
    findings = waivers.waive(findings, library.waivers, datetime.now(UTC).date())
    status = judge(findings) if verdict.findings else verdict.status
    return replace(verdict, findings=tuple(findings), status=status)


def _target(library: Library, name: str, write_manifests: bool, show: Show) -> Iterator[Verdict]:
    reading = Reading(library.include, library.defines, name, library.language, library.python)
    if library.compile_commands:
        reading = compile_commands.apply(reading, library.compile_commands, library.source)
    if not library.headers:
        raise InputError(f"[abi.libraries.{library.name}]: expected headers, got none")
    plain = sources.read_headers(library.headers, reading)
    names = plain.names() | library.names.keys()
    title = f"{library.name} {plain.target}"
    yield Verdict(
        name=f"{title}: manifest",
        findings=(findings := tuple(_manifest(library, plain, write_manifests))),
        status=judge(findings),
        measurements={"n_records": len(plain.records), "n_functions": len(plain.functions)},
    )
    is_host = plain.target == target.host()
    exports = sources.read_exports(library.library) if library.library and is_host else None
    for side in library.mirrors:
        if not is_host and sources.split(side)[0] != "header":
            # A mirror in a running language is laid out for the machine that runs it.
            continue
        mirror = sources.read(side, reading, names)
        found = sources.read_headers(library.headers, reading, mirror.names())
        found = sources.with_exports(found, exports) if exports else found
        yield check.judged(f"{title}: {side}", mirror, found, names=library.names, show=show)
    if exports and library.library and (glibc := versions.host_glibc()):
        missing = tuple(versions.check_glibc(exports, library.library.name, glibc, "this host"))
        name = f"{title}: {library.library.name} on this host"
        yield Verdict(name=name, findings=missing, status=judge(missing))


def _manifest(library: Library, found: Manifest, write_it: bool) -> Iterator[Finding]:
    """Whether the committed manifest of a target still says what the headers say."""
    if not library.manifest:
        return
    path = library.folder / library.manifest.replace("{target}", found.target)
    text = dump(found)
    if write_it:
        write(path, text)
        return
    if not path.is_file():
        raise InputError(
            f"expected the manifest {path}, found none; write it with --write-manifests"
        )
    if path.read_text() == text:
        return
    yield finding(
        MANIFEST_CHANGED,
        Severity.LATENT,
        f"the headers no longer give {path.name}:\n{text_diff(path.read_text(), text)}",
        path.name,
        manifest=path.name,
    )
