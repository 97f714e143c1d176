"""What the tests of abi share: a C compiler as the independent witness, and small headers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hotfire.abi.manifest import Manifest
from hotfire.abi.readers import header
from hotfire.verdict import Finding

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def read_header(tmp_path: Path) -> Callable[..., Manifest]:
    """Reads C text as a header."""
    count = iter(range(1000))

    def read(text: str, **options: object) -> Manifest:
        folder = tmp_path / f"header{next(count)}"
        folder.mkdir()
        path = folder / "api.h"
        path.write_text("#include <stdint.h>\n#include <stdbool.h>\n#include <stddef.h>\n" + text)
        return header.read(path, **options)  # type: ignore[arg-type]

    return read


@pytest.fixture
def run_c(tmp_path: Path) -> Callable[[str], str]:
    """Compiles and runs a C program with the system's compiler, and gives what it printed."""

    def run(text: str) -> str:
        source, program = tmp_path / "probe.c", tmp_path / "probe"
        source.write_text(text)
        subprocess.run(["cc", "-std=gnu11", "-w", "-o", program, source], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout

    return run


def rules(findings: list[Finding]) -> set[str]:
    """The rules of the findings that gate."""
    return {found.rule for found in findings if found.severity.gates}


def matches(found: Finding, wanted: dict[str, str]) -> bool:
    """Whether a finding is the one that an expectation describes."""
    rest = {key: value for key, value in wanted.items() if key != "rule"}
    return found.rule == wanted["rule"] and all(
        found.subject.get(key) == value for key, value in rest.items()
    )
