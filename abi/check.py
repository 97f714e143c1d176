"""One comparison as a verdict: what was compared, how much of it, what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hotfire.abi import sources
from hotfire.abi.checks import compare
from hotfire.abi.manifest import Manifest
from hotfire.abi.sources import Reading
from hotfire.errors import InputError
from hotfire.verdict import Severity, Status, Verdict, judge


def judged(
    name: str,
    mirror: Manifest,
    library: Manifest,
    *,
    reproduce: str = "",
    names: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict of a mirror against a library.

    Two sides that have no name in common prove nothing: the verdict is then mistrusted.
    """
    findings = tuple(compare(mirror, library, names=names))
    common = {
        "records": _common(mirror.record_names, library.record_names),
        "functions": len(
            [n for n in mirror.functions if n in library.functions or n in library.redirects]
        ),
        "constants": _common(mirror.values, library.values),
    }
    by_severity = {
        f"n_{severity.value}": sum(found.severity is severity for found in findings)
        for severity in Severity
    }
    status, reason = judge(findings), ""
    if (
        not any(common.values())
        and status is Status.PASSED
        and not _agree_on_nothing(mirror, library)
    ):
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
        },
        reproduce=reproduce,
        findings=findings,
        measurements={f"n_{what}_compared": count for what, count in common.items()} | by_severity,
    )


def _common(mine: Mapping[str, object], theirs: Mapping[str, object]) -> int:
    return len(set(mine) & set(theirs))


def _agree_on_nothing(mirror: Manifest, library: Manifest) -> bool:
    """Whether both sides are empty of everything that could be compared, typedefs apart."""
    return bool(set(mirror.typedefs) & set(library.typedefs))


def diff(a: str, b: str, mine: Reading, theirs: Reading, reproduce: str = "") -> Verdict:
    """The verdict of side A, the mirror as it was written, against side B, the library met."""
    mirror = sources.read(a, mine)
    library = sources.read(b, theirs, mirror.names())
    return judged(f"abi diff {a} {b}", mirror, library, reproduce=reproduce)


def check(
    headers: Sequence[Path],
    mirrors: Sequence[str],
    reading: Reading,
    *,
    library: Path | None = None,
    reproduce: str = "",
) -> Verdict:
    """The verdict of mirrors against a library's headers, and against what it exports.

    Raises:
        InputError: if nothing to compare is named, or something cannot be read.
    """
    from hotfire.verdict import combine

    if not mirrors:
        raise InputError("expected at least one --mirror, such as ctypes:package.module")
    if not headers and library is None:
        raise InputError("expected --header, --library, or both, to compare the mirror with")
    exports = sources.read_exports(library) if library else None
    parts = []
    for side in mirrors:
        mirror = sources.read(side, reading)
        if headers:
            found = sources.read_headers(headers, reading, mirror.names())
            found = sources.with_exports(found, exports) if exports else found
        else:
            found = sources.read(str(library), reading, mirror.names())
        parts.append(judged(f"abi check {side}", mirror, found, reproduce=reproduce))
    return parts[0] if len(parts) == 1 else combine("abi check", parts, reproduce=reproduce)
