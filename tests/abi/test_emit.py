"""What is emitted compiles into a right mirror, and keeps a drifted one from compiling."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi.emit import LANGUAGES, emit
from hotfire.abi.manifest import Manifest
from hotfire.abi.readers import header
from hotfire.cli import main
from hotfire.errors import InputError

from .conftest import FIXTURES

CASES = sorted(path.name for path in (FIXTURES / "cases").iterdir())
needs_rustc = pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")

ALL_SORTS = """
typedef struct { int a; struct { float x; } in; union { int q; double r; }; } unnamed_tag;
typedef struct bits_s { int a : 3; unsigned b : 5; uint64_t c : 33; } bits_t;
typedef enum { A, B = 5 } plain;
enum named { N1 = -1 };
struct flexible { int n; char data[]; };
struct node { struct node *next; struct node *(*visit)(struct node *, void *); int m[3][4]; };
struct opaque;
struct keyword { int from; int type; int match; };
int run(unnamed_tag *p, int (*c)(int, void *), int row[3], plain e, enum named n,
        struct flexible *q, bool z, struct opaque *o, struct node *l);
"""


def flags_of(case: str, version: str) -> list[str]:
    expected = json.loads((FIXTURES / "cases" / case / "expected.json").read_text())
    return list(expected["flags"].get(version, ()))


def library_of(case: str, version: str) -> Manifest:
    defines = [flag.removeprefix("-D") for flag in flags_of(case, version)]
    return header.read(FIXTURES / "cases" / case / version / "api.h", defines=defines)


def compile_c(folder: Path, mirror: Path, text: str, flags: list[str], compiler: str = "cc") -> str:
    """What the compiler says about a mirror with assertions behind it; nothing if it takes them."""
    source = folder / ("mirror.c" if compiler == "cc" else "mirror.cpp")
    source.write_text(f'#include "{mirror}"\n{text}')
    command = [compiler, "-fsyntax-only", *flags, source]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def compile_rust(folder: Path, mirror: str, text: str) -> str:
    """What rustc says about a mirror with assertions behind it."""
    source = folder / "mirror.rs"
    source.write_text(f"#![allow(warnings)]\n{mirror}\n{text}")
    command = ["rustc", "--crate-type=lib", "--emit=metadata", "-o", folder / "out.rmeta", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def drifted_header(case: str) -> Path:
    if case == "bitfields_mirrored_as_plain_ints":
        return FIXTURES / "bitfields_as_plain_ints.h"
    return FIXTURES / "cases" / case / "v1" / "api.h"


@pytest.mark.parametrize("compiler", ["cc", "c++"])
@pytest.mark.parametrize("case", CASES)
def test_c_assertions_tell_a_right_mirror_from_a_drifted_one(
    case: str, compiler: str, tmp_path: Path
) -> None:
    """The header of the library passes, the one that the mirror was written for does not."""
    text = emit(library_of(case, "v2"), "c", "assertions")
    right = FIXTURES / "cases" / case / "v2" / "api.h"
    assert compile_c(tmp_path, right, text, flags_of(case, "v2"), compiler) == ""
    said = compile_c(tmp_path, drifted_header(case), text, flags_of(case, "v1"), compiler)
    assert "error" in said


@needs_rustc
@pytest.mark.parametrize("case", CASES)
def test_rust_assertions_tell_a_right_mirror_from_a_drifted_one(case: str, tmp_path: Path) -> None:
    """Mirrors in Rust of both versions, against the assertions of the second."""
    library = library_of(case, "v2")
    text = emit(library, "rust", "assertions")
    assert compile_rust(tmp_path, emit(library, "rust", "declarations"), text) == ""
    drifted = emit(header.read(drifted_header(case)), "rust", "declarations")
    assert "differs from the library" in compile_rust(tmp_path, drifted, text)


@needs_rustc
def test_a_mirror_written_by_hand_in_rust_is_caught(tmp_path: Path) -> None:
    """The public report's own mirror: right for the first version, refused by the second."""
    case = "rust_mirror_missing_pointer"
    mirror = (FIXTURES / "cases" / case / "mirror.rs").read_text()
    first, second = (emit(library_of(case, v), "rust", "assertions") for v in ("v1", "v2"))
    assert compile_rust(tmp_path, mirror, first) == ""
    assert "the size of mtmd_params differs" in compile_rust(tmp_path, mirror, second)


@pytest.mark.parametrize("language", LANGUAGES)
def test_declarations_satisfy_their_own_assertions(
    language: str, read_header: Callable[..., Manifest], tmp_path: Path
) -> None:
    """Every sort of record and function survives being written out and compiled."""
    library = read_header(ALL_SORTS)
    mirror, checks = (emit(library, language, form) for form in ("declarations", "assertions"))
    if language == "c":
        path = tmp_path / "declared.h"
        path.write_text(mirror)
        assert compile_c(tmp_path, path, checks, []) == ""
    elif language == "rust":
        if shutil.which("rustc") is None:
            pytest.skip("rustc is not installed")
        assert compile_rust(tmp_path, mirror, checks) == ""
    else:
        text = f"{mirror}\n{checks}"
        if language == "cffi":
            text = f"import cffi\nffi = cffi.FFI()\nffi.cdef({mirror!r})\n{checks}"
        subprocess.run([sys.executable, "-c", text], check=True)


def test_unknown_name_is_bad_input(read_header: Callable[..., Manifest]) -> None:
    """A name that the library lacks is said, not left out."""
    with pytest.raises(InputError, match="the library has no absent"):
        emit(read_header(ALL_SORTS), "c", "assertions", frozenset({"absent"}))


def test_command_line_writes_what_compiles(tmp_path: Path) -> None:
    """`hotfire abi emit` gives a file, for the records that were asked for."""
    (tmp_path / "api.h").write_text("struct a { int x; };\nstruct b { int y; };\n")
    words = ["abi", "emit", str(tmp_path / "api.h"), "--lang", "c", "--name", "a"]
    done = CliRunner().invoke(main, [*words, "-o", str(tmp_path / "check.h")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "check.h").read_text()
    assert "struct a" in text
    assert "struct b" not in text
    assert compile_c(tmp_path, tmp_path / "api.h", text, []) == ""


def test_another_target_is_as_its_compiler_says(tmp_path: Path) -> None:
    """What is read for i686 compiles as assertions with a compiler for it, and not for x86-64."""
    path = tmp_path / "api.h"
    path.write_text(
        "#include <stdint.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
        "struct wide { char c; long l; int64_t w; double d; long double e; void *p; size_t n; };\n"
        "struct bits { unsigned a : 7; uint64_t b : 40; bool c; };\n"
        "union either { int64_t i; float f[3]; };\n"
    )
    text = emit(header.read(path, target="i686-linux"), "c", "assertions")
    flags = ["-m32", "-ffreestanding"]
    if compile_c(tmp_path, path, "", flags):
        pytest.skip("the compiler cannot compile for i686")
    assert compile_c(tmp_path, path, text, flags) == ""
    assert "error" in compile_c(tmp_path, path, text, ["-ffreestanding"])


CONSTANT_POINTERS = """
struct s { int a; };
int f(const char *text, const struct s *s, const char *const *all, int (*call)(const void *));
__attribute__((deprecated)) void g(const int m[3]);
#include <stdarg.h>
int log_to(const char *format, va_list rest);
typedef struct { int hidden; } *handle;
void use(handle h);
"""


def test_c_assertions_read_qualifiers_either_way(tmp_path: Path) -> None:
    """A mirror with and one without `const` both compile, one with another argument does not."""
    (tmp_path / "api.h").write_text(CONSTANT_POINTERS)
    (tmp_path / "assertions.h").write_text(
        emit(header.read(tmp_path / "api.h"), "c", "assertions", None)
    )
    texts = (CONSTANT_POINTERS, CONSTANT_POINTERS.replace("const ", ""))
    for text, works in (
        (texts[0], True),
        (texts[1].replace("*const", "*"), True),
        (CONSTANT_POINTERS.replace("const struct s *s", "const int *s"), False),
    ):
        (tmp_path / "mirror.c").write_text(f'{text}#include "assertions.h"\n')
        command = ["cc", "-Werror", "-std=gnu11", "-fsyntax-only", "mirror.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == works, done.stderr
