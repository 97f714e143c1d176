"""Every rule has a fixture that gives it, and every fixture gives exactly what is written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.abi import sources
from hotfire.abi.checks import RULES, compare, versions
from hotfire.abi.manifest import Manifest
from hotfire.abi.sources import Reading
from hotfire.verdict import Finding

from .conftest import FIXTURES
from .drifts import BREAKING, HARMLESS
from .mirrors import MIRRORS

SUBJECTS = ("record", "function", "argument", "field", "enum", "constant", "typedef")


def line(found: Finding) -> str:
    """A finding as fixtures write it: severity, rule, subject."""
    names = [found.subject[key] for key in SUBJECTS if key in found.subject]
    if found.rule in ("RECORD_UNMIRRORED",):
        names = [found.subject["function"], found.subject["record"]]
    return " ".join([found.severity.value, found.rule, *names])


def test_catalogue_gives_exactly_what_is_written_down(read_header: Callable[..., Manifest]) -> None:
    """All checks run over every pair of headers; a false alarm in a neighbour shows up here."""
    got = {
        kind: sorted(line(f) for f in compare(read_header(pair[0]), read_header(pair[1])))
        for kind, pair in {**BREAKING, **HARMLESS}.items()
    }
    want = json.loads((FIXTURES / "drift_findings.json").read_text())
    assert got == want


def read_mirror(name: str, folder: Path) -> tuple[Manifest, list[str]]:
    kind, text, _, _, want = MIRRORS[name]
    path = folder / ("mirror.txt" if kind == "cffi" else "mirror.py")
    path.write_text(text)
    return sources.read(f"{kind}:{path}", Reading()), want


@pytest.mark.parametrize("name", MIRRORS)
def test_mirror_gives_exactly_what_is_written_down(
    name: str, read_header: Callable[..., Manifest], tmp_path: Path
) -> None:
    """No more and no fewer findings than the fixture lists."""
    mirror, want = read_mirror(name, tmp_path)
    library = read_header(MIRRORS[name][2], names=mirror.names())
    if MIRRORS[name][3] is not None:
        library = replace(library, exports=MIRRORS[name][3])
    assert sorted(line(found) for found in compare(mirror, library)) == sorted(want)


def test_every_rule_has_a_fixture() -> None:
    """A rule that nothing triggers proves nothing."""
    written = json.loads((FIXTURES / "drift_findings.json").read_text())
    lines = [text for texts in written.values() for text in texts]
    lines += [text for *_, texts in MIRRORS.values() for text in texts]
    assert set(RULES) - {text.split()[1] for text in lines} == set()


@pytest.mark.parametrize(
    ("tag", "want"),
    [
        ("x-1-py3-none-manylinux2014_x86_64.whl", (2, 17)),
        ("x-1-py3-none-manylinux_2_28_x86_64.whl", (2, 28)),
        ("x-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", (2, 17)),
        ("x-1-cp311-cp311-manylinux1_i686.whl", (2, 5)),
        ("x-1-py3-none-any.whl", None),
        ("x-1-py3-none-macosx_11_0_arm64.whl", None),
    ],
)
def test_promise_of_a_wheels_name(tag: str, want: tuple[int, int] | None) -> None:
    """The platform tags of PEP 513, 571, 599 and 600."""
    assert versions.promised_glibc(tag) == want


def test_newest_needed_version_counts() -> None:
    """2.4 is older than 2.17, which comparing text would get wrong."""
    needed = {
        "libc.so.6": ("GLIBC_2.4", "GLIBC_2.17", "GLIBC_PRIVATE"),
        "libm.so.6": ("GLIBC_2.9",),
    }
    library = Manifest(source="exports", target="x86_64-linux", needed=needed)
    assert versions.needed_glibc(library) == ((2, 17), "libc.so.6")
    assert list(versions.check_glibc(library, "lib.so", (2, 17), "this host")) == []
    (found,) = versions.check_glibc(library, "lib.so", (2, 12), "the tag")
    assert found.rule == "NEEDED_SYMBOL_VERSION"
    assert found.severity.gates
