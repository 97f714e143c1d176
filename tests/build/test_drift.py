"""Changing `hotfire.h` alone fails the build with the right finding; a stale library is refused."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotfire import lib
from hotfire.errors import LibraryError, StaleLibraryError

ROOT = Path(__file__).resolve().parents[2]
HEADER = "native/include/hotfire.h"
TOOLS = Path(sys.executable).parent

# What is changed in the header, and what the build's table must say: rule, record or enum, member.
DRIFTS = {
    "field_added": (
        "    uint32_t isa;         /* enum",
        "    uint32_t n_queues;\n    uint32_t isa;         /* enum",
        ("FIELD_MISSING", "hotfire_context_params", "n_queues"),
    ),
    "field_added_at_the_end": (
        "    uint64_t workspace_size;",
        "    uint64_t workspace_size; uint64_t deadline;",
        ("RECORD_SIZE", "hotfire_exec", ""),
    ),
    "field_widened": (
        "    uint32_t flags;          /* enum hotfire_exec_flag",
        "    uint64_t flags;          /* enum hotfire_exec_flag",
        ("FIELD_WIDTH", "hotfire_exec", "flags"),
    ),
    "same_size_fields_reordered": (
        "    uint32_t backend;     /* enum hotfire_backend */\n"
        "    uint32_t isa;         /* enum hotfire_isa;",
        "    uint32_t isa;\n    uint32_t backend; /* enum hotfire_isa;",
        ("FIELD_OFFSET", "hotfire_context_params", "isa"),
    ),
    "enum_value_changed": (
        "HOTFIRE_ISA_AVX2 = 2,",
        "HOTFIRE_ISA_AVX2 = 4,",
        ("ENUM_VALUE", "hotfire_isa", "HOTFIRE_ISA_AVX2"),
    ),
    "constant_changed": (
        "#define HOTFIRE_ABI_VERSION 1",
        "#define HOTFIRE_ABI_VERSION 2",
        ("CONSTANT", "HOTFIRE_ABI_VERSION", ""),
    ),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what the build reads, configured once."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("CMakeLists.txt", "pyproject.toml", "native", "src", "abi", "ref", "props"):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "build")
            shutil.copytree(source, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, copy / name)
    run(
        TOOLS / "cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja",
        f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}",
        "-DCMAKE_BUILD_TYPE=Release",
    )  # fmt: skip
    return copy


def run(*words):
    """Runs a build tool, which must succeed."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def build(copy, target="all"):
    """Builds one target; gives the exit status and everything it printed."""
    done = subprocess.run(
        [str(TOOLS / "cmake"), "--build", str(copy / "build"), "--target", target],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", DRIFTS)
def test_a_change_of_the_header_alone_fails_the_build(checkout, name):
    """With a table row that names the rule, the struct or enum, and the member."""
    old, new, said = DRIFTS[name]
    header = checkout / HEADER
    text = header.read_text()
    assert text.count(old) == 1, f"{old!r} is no longer in the header"
    header.write_text(text.replace(old, new))
    try:
        status, printed = build(checkout)
    finally:
        header.write_text(text)
    assert status != 0
    rule, owner, member = said
    rows = [line for line in printed.splitlines() if rule in line and owner in line]
    assert any(member in row for row in rows), printed
    assert "error:" not in printed, "the build must fail by the check, not in the compiler"


def test_a_kernel_header_that_the_specs_do_not_say_fails_the_build(checkout):
    """The generated header is committed; an edit by hand is told what to run."""
    header = checkout / "native/include/hotfire_kernels.h"
    text = header.read_text()
    header.write_text(text.replace("float eps,", "double eps,"))
    try:
        status, printed = build(checkout, "hotfire_abi_header")
    finally:
        header.write_text(text)
    assert status != 0
    assert "hotfire abi header" in printed


def test_the_unchanged_header_passes(checkout):
    """The canary of the canaries."""
    status, printed = build(checkout, "hotfire_abi_header")
    assert status == 0, printed


@pytest.mark.parametrize(("size", "said"), [(32, "hotfire_exec"), (40, "lacks hotfire_softmax")])
def test_a_stale_library_is_refused_with_one_clear_error(tmp_path, size, said):
    """Another layout in the library's own table, or a missing function."""
    present = set(lib.mirror().functions) - {"hotfire_abi_version", "hotfire_layout"}
    if "lacks" in said:
        present.remove("hotfire_softmax")
    stubs = "\n".join(f"void {name}(void) {{}}" for name in sorted(present))
    source = tmp_path / "stale.c"
    source.write_text(STALE.replace("SIZE", str(size)) + stubs)
    library = tmp_path / "libhotfire_core.so"
    run("cc", "-shared", "-fPIC", "-o", library, source)
    with pytest.raises(StaleLibraryError, match=said) as raised:
        lib.load_path(library)
    assert "make build" in str(raised.value)


def test_what_is_no_library_is_one_clear_error(tmp_path):
    """A file that the loader refuses."""
    path = tmp_path / "libhotfire_core.so"
    path.write_bytes(b"\x7fELF nonsense")
    with pytest.raises(LibraryError, match="cannot be loaded"):
        lib.load_path(path)


def test_the_binding_lists_the_header_whole():
    """Every function that the header declares is bound and exported, none is left out."""
    names = {name for name in lib.mirror().functions if name.startswith("hotfire_")}
    declared = {
        word.split("(")[0].lstrip("*")
        for path in (HEADER, "native/include/hotfire_kernels.h")
        for line in (ROOT / path).read_text().splitlines()
        if line.startswith("HOTFIRE_API")
        for word in line.split()
        if "(" in word
    }
    assert names == declared


STALE = """
#include <stdint.h>
/* The layout table of a library whose hotfire_exec has SIZE bytes; this package's has 40. */
struct entry { const char *name, *member; int64_t offset; uint64_t size; uint32_t kind, reserved; };
static const struct entry table[] = {{"hotfire_exec", "", 0, SIZE, 0, 0}};
uint32_t hotfire_abi_version(void) { return 1; }
const struct entry *hotfire_layout(uint64_t index) { return index ? 0 : table; }
"""
