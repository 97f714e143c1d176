"""One comparison as a verdict: what was compared, how much of it, what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotfire.abi import sources, target
from hotfire.abi.checks import compare_both, versions
from hotfire.abi.checks.base import Comparison
from hotfire.abi.manifest import Manifest, dump
from hotfire.abi.sidebyside import drifted
from hotfire.abi.sources import Reading
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity, Status, Verdict, combine, judge

Show = Callable[[str], None]


def silent(_text: str) -> None:
    """Shows nothing."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a check does besides comparing.

    Args:
        library: the built library, or a .txt list of its symbols.
        wheel: a wheel whose libraries are compared with the promise of its name.
        paint: whether to call the library's functions that return a record, and compare the
            extent of what they write with the header.
        confirm: a C compiler that must agree with every finding that gates; "" for none.
        reproduce: the command line that runs it again.
        show: is given the two layouts of each record that drifted, as text.
    """

    library: Path | None = None
    wheel: Path | None = None
    paint: bool = False
    confirm: str = ""
    reproduce: str = ""
    show: Show = silent


def judged(
    name: str,
    mirror: Manifest,
    library: Manifest,
    *,
    reproduce: str = "",
    names: Mapping[str, str] | None = None,
    show: Show = silent,
) -> Verdict:
    """The verdict of a mirror against a library.

    Two sides that have no name in common prove nothing: the verdict is then mistrusted.
    """
    with sources.told(name):
        both = Comparison(mirror, library, dict(names or {}))
        found = compare_both(both)
        for text in drifted(both, found):
            show(text)
        digests = {"mirror_sha256": _digest(mirror), "library_sha256": _digest(library)}
    functions = {*library.functions, *library.redirects, *(library.exports or ())}
    common = {
        "records": len(both.pairs),
        "functions": len(functions & mirror.functions.keys()),
        "constants": len(mirror.values.keys() & library.values.keys()) + both.n_scoped_labels,
    }
    counts = {
        f"n_{severity.value.replace('-', '_')}": sum(each.severity is severity for each in found)
        for severity in Severity
    }
    status, reason = judge(found), ""
    typedefs = mirror.typedefs.keys() & library.typedefs.keys()
    if status is Status.PASSED and not any(common.values()) and not typedefs:
        status, reason = Status.MISTRUSTED, "the two sides have no name in common"
    return Verdict(
        name=name,
        status=status,
        reason=reason,
        scope={
            "mirror": mirror.source,
            "library": library.source,
            "target": library.target or mirror.target,
            "defines": list(library.defines),
        }
        | digests,
        reproduce=reproduce,
        findings=tuple(found),
        measurements={f"n_{what}_compared": n for what, n in common.items()} | counts,
    )


def _digest(manifest: Manifest) -> str:
    """What tells one manifest from another, for the scope of a verdict."""
    return hashlib.sha256(dump(manifest).encode()).hexdigest()[:16]


def diff(
    a: str, b: str, mine: Reading, theirs: Reading, *, reproduce: str = "", show: Show = silent
) -> Verdict:
    """The verdict of side A, the mirror as it was written, against side B, the library met."""
    if sources.split(a)[0] in sources.BINARIES:
        # A binary is searched for what the other side speaks of; so is a mirror that is poked.
        library = sources.read(b, theirs)
        mirror = sources.read(a, mine, library.names())
    else:
        mirror = sources.read(a, mine)
        library = sources.read(b, theirs, mirror.names())
    return judged(f"abi diff {a} {b}", mirror, library, reproduce=reproduce, show=show)


def check(
    headers: Sequence[Path], mirrors: Sequence[str], reading: Reading, options: Options
) -> Verdict:
    """The verdict of mirrors against a library's headers, and of the library against both.

    Raises:
        InputError: if nothing to compare is named, or something cannot be read.
    """
    if not mirrors and not options.paint and options.wheel is None:
        raise InputError("expected at least one --mirror, such as ctypes:package.module")
    if mirrors and not headers and options.library is None:
        raise InputError("expected --header, --library, or both, to compare the mirror with")
    if options.library is not None:
        options = replace(options, library=sources.library_path(options.library))
    parts = [_mirror(headers, side, reading, options) for side in mirrors]
    for built in _as_built(headers, reading, options) if mirrors else []:
        if len(parts) == 1 and built.status is Status.PASSED and not built.findings:
            # Nothing to tell apart: the mirror's verdict stays the only one.
            compared = {"n_records_as_built": built.measurements["n_records_compared"]}
            parts = [replace(parts[0], measurements={**parts[0].measurements, **compared})]
        else:
            parts.append(built)
    if options.paint:
        parts.append(painted(headers, reading, options))
    if options.wheel is not None:
        from hotfire.abi import wheel

        parts.append(wheel.check(options.wheel, options.reproduce))
    if len(parts) == 1:
        return parts[0]
    return combine("abi check", parts, reproduce=options.reproduce)


def _mirror(headers: Sequence[Path], side: str, reading: Reading, options: Options) -> Verdict:
    wanted: set[str] = set()
    if headers and sources.split(side)[0] in sources.BINARIES:
        wanted = sources.read_headers(headers, reading).names()
    mirror = sources.read(side, reading, wanted)
    if headers:
        found = sources.read_headers(headers, reading, mirror.names())
    else:
        found = _library(options.library, reading, mirror.names())
    extra: list[Finding] = []
    if options.library is not None:
        exports = sources.read_exports(options.library)
        found = sources.with_exports(found, exports)
        glibc = versions.host_glibc()
        if glibc and exports.target == target.host():
            extra += versions.check_glibc(exports, options.library.name, glibc, "this host")
    verdict = judged(
        f"abi check {side}", mirror, found, reproduce=options.reproduce, show=options.show
    )
    if extra:
        findings = (*verdict.findings, *extra)
        verdict = replace(verdict, findings=findings, status=judge(findings))
    if options.confirm and headers:
        return _confirmed(verdict, mirror, found, headers, reading, options.confirm)
    return verdict


def _library(library: Path | None, reading: Reading, names: set[str]) -> Manifest:
    """What a library alone says: its debug information, or a list of its symbols."""
    if library is not None and library.suffix == ".txt":
        return sources.read_exports(library)
    return sources.read(str(library), reading, names)


def _as_built(headers: Sequence[Path], reading: Reading, options: Options) -> list[Verdict]:
    """The headers' layouts against those in the library's debug information, if it has any.

    They differ where a layout depends on defines that the library was built with.
    """
    from hotfire.abi.readers import dwarf

    library = options.library
    if not headers or library is None or library.suffix == ".txt" or not dwarf.is_there(library):
        return []
    header = sources.read_headers(headers, reading)
    built = dwarf.read(library, names=header.names())
    # Headers declare what other libraries define, so that only layouts can be compared.
    verdict = judged(
        f"abi check headers against {library.name}",
        replace(header, functions={}),
        replace(built, functions={}, exports=None),
        reproduce=options.reproduce,
        show=options.show,
    )
    return [] if verdict.status is Status.MISTRUSTED else [verdict]


def _confirmed(
    verdict: Verdict,
    mirror: Manifest,
    library: Manifest,
    headers: Sequence[Path],
    reading: Reading,
    compiler: str,
) -> Verdict:
    """The verdict after a C compiler was asked about each finding that gates."""
    from hotfire.abi import probe

    answers = probe.confirm(verdict.findings, mirror, library, headers, reading, compiler)
    findings = tuple(
        replace(found, message=f"{found.message} ({_answer(answers[at], compiler)})")
        if at in answers
        else found
        for at, found in enumerate(verdict.findings)
    )
    status, reason = verdict.status, verdict.reason
    if not all(answers.values()):
        status = Status.MISTRUSTED
        reason = f"{compiler} does not agree with every finding; is it given the same defines?"
    return replace(
        verdict,
        status=status,
        reason=reason,
        findings=findings,
        measurements={**verdict.measurements, "n_confirmed": sum(answers.values())},
    )


def _answer(confirmed: bool, compiler: str) -> str:
    return f"{compiler} confirms it" if confirmed else f"{compiler} does not confirm it"


def painted(headers: Sequence[Path], reading: Reading, options: Options) -> Verdict:
    """The verdict of what a stripped library's functions write against its headers.

    Raises:
        InputError: if there is no header, no library, or a function cannot be called.
    """
    from hotfire.abi.readers import paint

    if not headers or options.library is None:
        raise InputError("expected --header and --library to paint a library's records")
    header = sources.read_headers(headers, reading)
    candidates = paint.candidates(header)
    done = paint.paint(options.library, list(candidates)) if candidates else []
    findings = tuple(paint.compare(header, done))
    return Verdict(
        name=f"abi check: painted {options.library.name}",
        status=judge(findings) if done else Status.SKIPPED,
        reason="" if done else "no function of the headers returns a record and takes nothing",
        reproduce=options.reproduce,
        findings=findings,
        measurements={found.function: found.extent for found in done},
    )
