"""Painting: a stripped library's record sizes, told by what its functions write."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi import target
from hotfire.abi.manifest import Manifest
from hotfire.abi.readers import paint
from hotfire.cli import main
from hotfire.errors import InputError

pytestmark = pytest.mark.skipif(
    not target.host().startswith("x86_64-linux"), reason="painting needs x86-64 Linux"
)

PARAMS = "struct params { int a; double b; char c; void *p; int tail; };"
DEFAULTS = """
struct params lib_default_params(void) {
    struct params found;
    found.a = 1; found.b = 2.0; found.c = 'x'; found.p = 0; found.tail = 7;
    return found;
}
"""
DECLARED = "\nstruct params lib_default_params(void);"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library without symbols or debug information beyond what it exports."""
    (tmp_path / "lib.c").write_text(PARAMS + DEFAULTS)
    path = tmp_path / "lib.so"
    flags = ["-O1", "-s", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", path, tmp_path / "lib.c"], check=True)
    return path


def test_extent_and_padding_are_seen(library: Path, read_header: Callable[..., Manifest]) -> None:
    """Fields written one by one leave the padding alone, and the right header has no finding."""
    header = read_header(PARAMS + DECLARED)
    assert paint.candidates(header) == {"lib_default_params": "params"}
    (found,) = paint.paint(library, ["lib_default_params"])
    assert found.extent == 36
    assert found.holes == ((4, 8), (17, 24))
    assert list(paint.compare(header, [found])) == []


@pytest.mark.parametrize(
    ("params", "rule", "severity"),
    [
        ("struct params { int a; double b; char c; void *p; };", "PAINTED_SIZE", "memory-unsafe"),
        (PARAMS.replace("int tail;", "int tail; double more;"), "PAINTED_SIZE", "silent-wrong"),
        (
            "struct params { int a; int x; double b; char c; void *p; int tail; };",
            "PAINTED_HOLE",
            "info",
        ),
    ],
)
def test_drifted_header_is_told(
    params: str,
    rule: str,
    severity: str,
    library: Path,
    read_header: Callable[..., Manifest],
) -> None:
    """A record that is shorter, longer, or has a field in what the library leaves alone."""
    header = read_header(params + DECLARED)
    found = list(paint.compare(header, paint.paint(library, ["lib_default_params"])))
    assert [(each.rule, each.severity) for each in found] == [(rule, severity)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("__builtin_trap();", "ended with code"),
        ("*(int *)1 = 0;", "ended with code"),
    ],
)
def test_function_that_crashes_is_one_error(body: str, said: str, tmp_path: Path) -> None:
    """The child dies, not the caller."""
    (tmp_path / "lib.c").write_text(f"{PARAMS} struct params f(void) {{ {body} }}")
    path = tmp_path / "lib.so"
    command = ["cc", "-w", "-shared", "-fPIC", "-o", path, tmp_path / "lib.c"]
    subprocess.run(command, check=True)
    with pytest.raises(InputError, match=said):
        paint.paint(path, ["f"])


def test_function_that_is_not_there_is_one_error(library: Path) -> None:
    """A header newer than the library."""
    with pytest.raises(InputError, match="undefined symbol: absent"):
        paint.paint(library, ["absent"])


def test_command_line_paints_without_a_mirror(library: Path, tmp_path: Path) -> None:
    """`hotfire abi check --paint`: the header is what is checked."""
    shorter = PARAMS.replace("int tail;", "")
    for text, code in ((PARAMS, 0), (shorter, 1)):
        (tmp_path / "api.h").write_text(text + DECLARED)
        words = ["--header", str(tmp_path / "api.h"), "--library", str(library), "--paint"]
        done = CliRunner().invoke(main, ["abi", "check", *words])
        assert done.exit_code == code, done.output
