"""A built library beside its headers: what it exports, and what it was really built with."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi.checks import versions
from hotfire.abi.readers import elf
from hotfire.cli import main

HEADER = """
#ifdef USE_GPU
#define MAX_DEVICES 16
#else
#define MAX_DEVICES 1
#endif
struct params { int n; float split[MAX_DEVICES]; int last; };
int use(struct params *p);
int hidden(void);
"""
SOURCE = """
#include "api.h"
int use(struct params *p) { return p->last; }
__attribute__((visibility("hidden"))) int hidden(void) { return 0; }
"""
MIRROR = """
import ctypes as C
class params(C.Structure):
    _fields_ = [("n", C.c_int), ("split", C.c_float * 1), ("last", C.c_int)]
lib = C.CDLL("lib.so")
lib.use.argtypes, lib.use.restype = [C.POINTER(params)], C.c_int
"""
HIDDEN = "lib.hidden.argtypes, lib.hidden.restype = [], C.c_int\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "api.h").write_text(HEADER)
    (tmp_path / "lib.c").write_text(SOURCE)
    (tmp_path / "mirror.py").write_text(MIRROR)
    return tmp_path


def run(
    folder: Path, *flags: str, words: tuple[str, ...] = ()
) -> tuple[int, list[tuple[str, str]]]:
    """Builds the library, checks the mirror against header and library."""
    command = ["cc", "-shared", "-fPIC", *flags, "-o", "lib.so", "lib.c"]
    subprocess.run(command, cwd=folder, check=True)
    given = ["--header", "api.h", "--mirror", "ctypes:mirror.py", "--library", "lib.so", *words]
    absolute = [str(folder / word) if (folder / word).is_file() else word for word in given]
    absolute = [word.replace("ctypes:", f"ctypes:{folder}/") for word in absolute]
    done = CliRunner().invoke(main, ["abi", "check", *absolute, "--format", "json"])
    tree = json.loads(done.stdout)
    findings = [f for part in [tree, *tree["parts"]] for f in part["findings"]]
    gating = [f for f in findings if f["severity"] != "info"]
    return done.exit_code, [(f["rule"], f.get("field") or f.get("function", "")) for f in gating]


def test_right_library_passes(folder: Path) -> None:
    """Header, mirror, exports and debug information of one build."""
    assert run(folder, "-g") == (0, [])


def test_stripped_library_passes(folder: Path) -> None:
    """Without debug information its exports are still compared."""
    assert run(folder, "-s") == (0, [])


def test_symbol_that_is_not_exported_is_told(folder: Path) -> None:
    """Declared, defined, and hidden from the loader."""
    (folder / "mirror.py").write_text(MIRROR + HIDDEN)
    assert run(folder) == (1, [("FN_NOT_EXPORTED", "hidden")])


def test_define_that_only_the_library_was_built_with_is_told(folder: Path) -> None:
    """The header alone agrees with the mirror; the library's debug information does not."""
    code, found = run(folder, "-g", "-DUSE_GPU")
    assert code == 1
    assert ("FIELD_WIDTH", "split") in found
    assert ("FIELD_OFFSET", "last") in found
    assert run(folder, "-g", "-DUSE_GPU", words=("-D", "USE_GPU"))[0] == 1


def test_mirror_may_be_compared_with_the_library_alone(folder: Path) -> None:
    """Debug information stands in for the header."""
    subprocess.run(
        ["cc", "-g", "-DUSE_GPU", "-shared", "-fPIC", "-o", "lib.so", "lib.c"],
        cwd=folder,
        check=True,
    )
    words = ["abi", "diff", f"ctypes:{folder / 'mirror.py'}", str(folder / "lib.so")]
    done = CliRunner().invoke(main, [*words, "--format", "json"])
    assert done.exit_code == 1
    assert {"RECORD_SIZE", "FIELD_WIDTH"} <= {
        f["rule"] for f in json.loads(done.stdout)["findings"]
    }


def wheel_of(folder: Path, tag: str) -> Path:
    """A wheel with one library that needs a recent glibc."""
    (folder / "needs.c").write_text(
        "#include <pthread.h>\nvoid *run(void *p) { return p; }\n"
        "int start(pthread_t *t) { return pthread_create(t, 0, run, 0); }\n"
    )
    command = ["cc", "-shared", "-fPIC", "-o", "needs.so", "needs.c", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    path = folder / f"thing-1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "needs.so", "thing/needs.so")
        archive.writestr("thing/text.so", "not a library")
    return path


@pytest.mark.parametrize(
    ("tag", "code"), [("manylinux1_x86_64", 1), ("manylinux_2_999_x86_64", 0), ("linux_x86_64", 0)]
)
def test_wheel_must_keep_the_promise_of_its_tag(tag: str, code: int, tmp_path: Path) -> None:
    """A library that needs a newer glibc than the tag promises; nothing is loaded."""
    path = wheel_of(tmp_path, tag)
    needed = versions.needed_glibc(elf.read(tmp_path / "needs.so"))
    if needed is None or needed[0] <= (2, 5):
        pytest.skip("this machine's own glibc is as old as the tag")
    done = CliRunner().invoke(main, ["abi", "check", "--wheel", str(path), "--format", "json"])
    tree = json.loads(done.stdout)
    assert done.exit_code == code
    assert tree["measurements"]["n_libraries"] == 1
    said = {f["needs"] for f in tree["findings"]}
    assert said == ({f"GLIBC_{needed[0][0]}.{needed[0][1]}"} if code else set())


def test_damaged_wheel_is_one_error(tmp_path: Path) -> None:
    """An archive that is cut."""
    path = wheel_of(tmp_path, "manylinux1_x86_64")
    path.write_bytes(path.read_bytes()[:200])
    done = CliRunner().invoke(main, ["abi", "check", "--wheel", str(path)])
    assert done.exit_code == 2
    assert "damaged archive" in done.output
