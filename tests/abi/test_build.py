"""The build's own check: every kind of drift in a header fails it, and an agreeing one passes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hotfire.abi import build

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "native/include/hotfire.h"
CDEF = ROOT / "src/hotfire/hotfire.cdef"

DRIFTS = {
    "field added": (
        "    uint32_t isa;",
        "    uint32_t isa; uint32_t more;",
        "FIELD_MISSING",
    ),
    "field widened": ("    uint32_t isa; ", "    uint64_t isa; ", "FIELD_WIDTH"),
    "fields swapped": (
        "    uint32_t backend;     /* enum hotfire_backend */\n    uint32_t isa; ",
        "    uint32_t isa;\n    uint32_t backend; ",
        "FIELD_OFFSET",
    ),
    "enum value changed": ("HOTFIRE_ISA_AVX2 = 2", "HOTFIRE_ISA_AVX2 = 5", "ENUM_VALUE"),
    "enum value added": (
        "HOTFIRE_ISA_AVX2 = 2,",
        "HOTFIRE_ISA_AVX2 = 2, HOTFIRE_ISA_X = 9,",
        "ENUM_NEW",
    ),
    "struct added": (
        "/* ---- Layout",
        "typedef struct hotfire_new { int32_t x; } hotfire_new;\n/* ---- Layout",
        "RECORD_UNMIRRORED",
    ),
    "enum added": (
        "/* ---- Layout",
        "typedef enum hotfire_new { HOTFIRE_NEW } hotfire_new;\n/* ---- Layout",
        "RECORD_UNMIRRORED",
    ),
    "function added": (
        "/* ---- Layout",
        "HOTFIRE_API void hotfire_new(void);\n/* ---- Layout",
        "FN_UNBOUND",
    ),
    "argument added": (
        "hotfire_layout(uint64_t index)",
        "hotfire_layout(uint64_t i, int j)",
        "FN_ARGC",
    ),
    "macro changed": ("#define HOTFIRE_ABI_VERSION 1", "#define HOTFIRE_ABI_VERSION 2", "CONSTANT"),
}


def run_header(header: Path, tmp_path: Path) -> int:
    return build.run(
        f"header --header {header} --cdef {CDEF} "
        f"--manifest {tmp_path / 'm.json'} --layout {tmp_path / 'l.inc'}".split()
    )


def test_header_and_binding_agree(tmp_path: Path) -> None:
    """Our header and our cdef say the same, and the layout table names every struct and enum."""
    assert run_header(HEADER, tmp_path) == 0
    table = (tmp_path / "l.inc").read_text()
    for name in ("hotfire_exec", "hotfire_layout_entry", "hotfire_status", "hotfire_isa"):
        assert f'"{name}"' in table


@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_fails_the_build(
    drift: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One change in a scratch copy of the header gives exit code 1 and the right finding."""
    old, new, rule = DRIFTS[drift]
    text = HEADER.read_text()
    assert text.count(old) == 1, "the test no longer fits the header"
    header = tmp_path / "hotfire.h"
    header.write_text(text.replace(old, new))
    assert run_header(header, tmp_path) == 1
    said = capsys.readouterr().err
    assert rule in said
    assert build.HEADER_REMEDY in said
    assert not (tmp_path / "m.json").exists()


def build_library(folder: Path, header: Path) -> Path:
    """A library whose debug information names all of a header's structs and enums."""
    source, library = folder / "lib.c", folder / "lib.so"
    source.write_text(f'#include "{header}"\nuint32_t hotfire_abi_version(void) {{ return 1; }}\n')
    flags = ["-g", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, source], check=True)
    return library


def run_dwarf(library: Path, tmp_path: Path) -> int:
    assert run_header(HEADER, tmp_path) == 0
    words = ["--library", str(library), "--cdef", str(CDEF), "--manifest", str(tmp_path / "m.json")]
    return build.run(["dwarf", *words])


def test_built_library_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A library compiled from a header with a wider field is told from its debug information."""
    folder = tmp_path / "drifted"
    folder.mkdir()
    header = folder / "hotfire.h"
    header.write_text(HEADER.read_text().replace("    uint32_t flags; ", "    uint64_t flags; "))
    assert run_dwarf(build_library(folder, header), tmp_path) == 1
    said = capsys.readouterr().err
    assert "FIELD_WIDTH" in said
    assert "hotfire_exec.flags" in said


def test_library_without_debug_information_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to compare is no pass."""
    source, library = tmp_path / "lib.c", tmp_path / "lib.so"
    source.write_text("int f(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert run_dwarf(library, tmp_path) == 2
    assert "expected DWARF" in capsys.readouterr().err
