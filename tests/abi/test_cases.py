"""Real drifts, distilled: each must be told, and nothing must be told of the version before."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hotfire.abi import check, sources
from hotfire.abi.manifest import Manifest
from hotfire.abi.sources import Reading
from hotfire.verdict import Finding

from .conftest import FIXTURES, matches

CASES = sorted(path.name for path in (FIXTURES / "cases").iterdir())


def read_mirror(folder: Path, scratch: Path) -> Manifest:
    """The case's mirror, whatever language it is written in."""
    if (folder / "mirror.py").exists():
        return sources.read(f"ctypes:{folder / 'mirror.py'}", Reading())
    if (folder / "mirror_cdef.txt").exists():
        return sources.read(f"cffi:{folder / 'mirror_cdef.txt'}", Reading())
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed; it builds the Rust mirror")
    library = scratch / "libmirror.so"
    command = ["rustc", "--crate-type=cdylib", "-g", "-o", library, folder / "mirror.rs"]
    subprocess.run(command, check=True, capture_output=True)
    return sources.read(f"dwarf:{library}", Reading())


def findings_of(case: str, version: str, scratch: Path) -> tuple[dict[str, list], list[Finding]]:
    folder = FIXTURES / "cases" / case
    expected = json.loads((folder / "expected.json").read_text())
    mirror = read_mirror(folder, scratch)
    defines = tuple(flag.removeprefix("-D") for flag in expected["flags"].get(version, ()))
    reading = Reading(defines=defines)
    library = sources.read_headers([folder / version / "api.h"], reading, mirror.names())
    if version == "v2" and (folder / "exports.txt").exists():
        library = sources.with_exports(library, sources.read_exports(folder / "exports.txt"))
    return expected, list(check.judged(case, mirror, library).findings)


@pytest.mark.parametrize("case", CASES)
def test_drift_is_told_and_nothing_else(case: str, tmp_path: Path) -> None:
    """On v2 all of must_report and none of must_not_report."""
    expected, found = findings_of(case, "v2", tmp_path)
    missed = [want for want in expected["must_report"] if not any(matches(f, want) for f in found)]
    false = [want for want in expected["must_not_report"] if any(matches(f, want) for f in found)]
    assert missed == []
    assert false == []
    assert any(f.severity.gates for f in found)


@pytest.mark.parametrize("case", CASES)
def test_version_before_is_clean(case: str, tmp_path: Path) -> None:
    """Against the header that the mirror was written for there is nothing to say."""
    expected, found = findings_of(case, "v1", tmp_path)
    if not expected.get("before_clean", True):
        pytest.skip("the mirror was wrong from the start")
    assert found == []
