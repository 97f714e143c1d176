"""Every kind of drift gates with exactly the rules that it should, and no harmless change does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi.checks import compare
from hotfire.abi.manifest import Manifest
from hotfire.cli import main

from .conftest import rules
from .drifts import BREAKING, HARMLESS


def test_there_are_enough() -> None:
    """The catalogue only grows."""
    assert len(BREAKING) >= 70
    assert len(HARMLESS) >= 20


@pytest.mark.parametrize("kind", BREAKING)
def test_drift_gates(kind: str, read_header: Callable[..., Manifest]) -> None:
    """The rules that gate are those that the catalogue lists, no more and no fewer."""
    before, after, want = BREAKING[kind]
    assert rules(compare(read_header(before), read_header(after))) == want


@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_change_does_not_gate(kind: str, read_header: Callable[..., Manifest]) -> None:
    """Nothing that a caller cannot notice fails a check."""
    before, after = HARMLESS[kind]
    assert rules(compare(read_header(before), read_header(after))) == set()


@pytest.mark.parametrize("kind", [*BREAKING, *HARMLESS])
def test_header_is_like_itself(kind: str, read_header: Callable[..., Manifest]) -> None:
    """Neither side of any pair has anything to say against itself."""
    for text in {**BREAKING, **HARMLESS}[kind][:2]:
        manifest = read_header(text)
        assert compare(manifest, manifest) == []


@pytest.mark.parametrize("kind", [*BREAKING, *HARMLESS])
def test_exit_code(kind: str, tmp_path: Path) -> None:
    """`hotfire abi diff v1/lib.h v2/lib.h` exits 1 on every drift, 0 on every harmless change."""
    paths = []
    for version, text in zip(("v1", "v2"), {**BREAKING, **HARMLESS}[kind][:2], strict=True):
        path = tmp_path / version / "lib.h"
        path.parent.mkdir()
        path.write_text(f"#include <stdint.h>\n{text}")
        paths.append(str(path))
    done = CliRunner().invoke(main, ["abi", "diff", *paths])
    assert done.exit_code == (1 if kind in BREAKING else 0), done.output
