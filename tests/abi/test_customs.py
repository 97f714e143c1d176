"""Mirrors as their languages write them, and files that are called like something else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.abi.checks import compare
from hotfire.abi.manifest import Manifest, dump, load
from hotfire.abi.readers import ctypes_, dwarf
from hotfire.abi.spelling import matching_labels, plain_record
from hotfire.cli import main

from .test_rules import line

RUST = """
#![allow(non_camel_case_types, dead_code)]
use std::os::raw::*;
#[repr(transparent)] #[derive(Clone, Copy)] pub struct Pos(pub i32);
#[repr(C)] #[derive(Clone, Copy)] pub enum SplitMode { None = 0, Layer = 1, Row = 2 }
#[repr(C)] pub struct opaque { _unused: [u8; 0] }
#[repr(C)] pub struct Incomplete<T>(std::marker::PhantomData<T>, [T; 0]);
#[repr(C)] #[derive(Clone, Copy)] pub struct Unit<S> { storage: S }
#[repr(C)] pub struct ModelParams {
    pub first: Pos,
    pub split: SplitMode,
    pub user: Option<std::ptr::NonNull<c_void>>,
    pub r#type: c_int,
    pub maybe: std::mem::MaybeUninit<i32>,
    pub held: *mut opaque,
    pub _bitfield_align_1: [u32; 0],
    pub _bitfield_1: Unit<[u8; 4usize]>,
    pub data: Incomplete<u8>,
}
#[no_mangle] pub extern "C" fn probe(p: &ModelParams) -> c_int { p.r#type }
"""
HEADER = """
enum split_mode { SPLIT_MODE_NONE, SPLIT_MODE_LAYER, SPLIT_MODE_ROW };
struct opaque;
struct model_params {
  int32_t first; enum split_mode split; void *user; int type; int maybe; struct opaque *held;
  uint32_t low : 24; uint32_t high : 8; uint8_t data[];
};
"""


@pytest.fixture(scope="module")
def rust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Rust mirror as people and bindgen write them, built."""
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed; it builds the Rust mirror")
    folder = tmp_path_factory.mktemp("rust")
    (folder / "mirror.rs").write_text(RUST)
    command = ["rustc", "--crate-type=cdylib", "-g", "-o", "libmirror.so", "mirror.rs"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "libmirror.so"


def test_rust_customs_are_no_drift(rust: Path, read_header: Callable[..., Manifest]) -> None:
    """Newtypes, wrappers, scoped labels, camel case, bindgen's bitfields and flexible arrays."""
    header = read_header(HEADER)
    found = compare(dwarf.read(rust, names=header.names()), header)
    assert {f.rule for f in found} <= {"FIELD_EXTRA", "FIELD_MISSING"}
    assert not [f for f in found if f.severity.gates]


def test_rust_drift_is_still_told(rust: Path, read_header: Callable[..., Manifest]) -> None:
    """Behind the same customs: a field that moved, and a label of another number."""
    header = read_header(
        HEADER.replace("void *user; int type;", "int type; void *user;").replace(
            "SPLIT_MODE_LAYER, ", "SPLIT_MODE_NEW, SPLIT_MODE_LAYER, "
        )
    )
    found = [line(f) for f in compare(dwarf.read(rust, names=header.names()), header)]
    assert "silent-wrong FIELD_OFFSET model_params type" in found
    assert "silent-wrong ENUM_VALUE split_mode SPLIT_MODE_LAYER" in found


@pytest.mark.parametrize("name", ["json.py", "ctypes.py", "my-mirror.py", "thing.py"])
def test_a_mirror_may_be_called_anything(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own file is read, whatever module has the name; also from the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thing.so").write_bytes(b"no extension module")
    (tmp_path / "enum.py").write_text("raise SystemExit('imported by mistake')")
    (tmp_path / name).write_text(
        "import ctypes\nimport enum\nclass s(ctypes.Structure): _fields_ = [('a', ctypes.c_int)]\n"
    )
    assert set(ctypes_.read(name).records) == {"s"}


def test_a_package_in_the_working_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its dotted name, as `python -m` would find it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binding").mkdir()
    (tmp_path / "binding/low.py").write_text("VALUE = 3")
    assert "VALUE" in ctypes_.read("binding.low").constants


def test_exports_are_a_list_or_a_side(tmp_path: Path) -> None:
    """`exports:FILE` and what `nm -D` prints mean the same as a list of names."""
    (tmp_path / "api.h").write_text("int f(int a); int g(void);")
    (tmp_path / "mirror.py").write_text(
        "import ctypes as C\nlib = C.CDLL('l.so')\n"
        "lib.f.argtypes, lib.f.restype = [C.c_int], C.c_int\n"
        "lib.g.argtypes, lib.g.restype = [], C.c_int\n"
    )
    (tmp_path / "list.txt").write_text("f\n# a comment\n")
    (tmp_path / "nm.txt").write_text("0000000000001139 T f@@V_1\n                 U g\n")
    mirror = f"ctypes:{tmp_path / 'mirror.py'}"
    for library in ("list.txt", "nm.txt"):
        for side in (str(tmp_path / library), f"exports:{tmp_path / library}"):
            words = ["--header", str(tmp_path / "api.h"), "--mirror", mirror, "--library", side]
            done = CliRunner().invoke(main, ["abi", "check", *words])
            assert done.exit_code == 1, done.output
            assert "FN_NOT_EXPORTED" in done.output
            assert "binds g" in done.output


def test_a_long_chain_of_records_is_read(
    tmp_path: Path, read_header: Callable[..., Manifest]
) -> None:
    """Each record points to the next, further than Python's own limit of calls reaches."""
    count = 400
    text = "".join(f"struct s{i};\n" for i in range(count))
    text += "".join(f"struct s{i} {{ struct s{(i + 1) % count} *next; }};\n" for i in range(count))
    (tmp_path / "chain.h").write_text(text + "void f(struct s0 *p);")
    (tmp_path / "chain.c").write_text('#include "chain.h"\nvoid f(struct s0 *p) {}\n')
    command = ["cc", "-g", "-shared", "-fPIC", "-o", "chain.so", "chain.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    sides = [str(tmp_path / "chain.h"), str(tmp_path / "chain.so")]
    done = CliRunner().invoke(main, ["abi", "diff", *sides])
    assert done.exit_code == 0, done.output


def test_scoped_enums_keep_to_themselves(read_header: Callable[..., Manifest]) -> None:
    """Two C++ enums with one label between them, through the written manifest and back."""
    text = "enum class a : int { NONE, ONE };\nenum class b : int { ONE, NONE };\n"
    before = read_header(text, language="c++")
    after = read_header(text.replace("{ ONE, NONE }", "{ NONE, ONE }"), language="c++")
    before = load(dump(before), "before.json")
    assert compare(before, before) == []
    found = sorted(line(f) for f in compare(before, after))
    assert found == ["silent-wrong ENUM_VALUE b NONE", "silent-wrong ENUM_VALUE b ONE"]


@pytest.mark.parametrize(
    ("mine", "theirs", "want"),
    [
        (["Layer"], ["SPLIT_MODE_NONE", "SPLIT_MODE_LAYER"], {"Layer": "SPLIT_MODE_LAYER"}),
        (["K"], ["T_K", "T_Q4_K"], {"K": "T_K"}),
        (["K"], ["T_Q4_K", "T_Q5_K", "T_F"], {}),
        (["F32"], ["ggml_F32", "GGML_F16"], {"F32": "ggml_F32"}),
        (["A"], ["A"], {"A": "A"}),
        (["A"], [], {}),
    ],
)
def test_labels_match_by_their_own_words(
    mine: list[str], theirs: list[str], want: dict[str, str]
) -> None:
    """Never by chance: of two that could be meant, none is."""
    assert matching_labels(mine, theirs) == want


def test_record_names_without_customs() -> None:
    """Case, underscores and an ending that says `type` do not tell records apart."""
    names = ("token_data", "TokenData", "TOKEN_DATA_DTYPE", "token_data_t", "_token_data")
    assert {plain_record(name) for name in names} == {"tokendata"}
    assert plain_record("t") == "t"
