"""Bad input: one clear error each, exit code 2, whatever the bytes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotfire.abi.manifest import Manifest, load
from hotfire.abi.readers import dwarf, elf, header
from hotfire.cli import main
from hotfire.errors import InputError

SOURCE = """
#include <stdint.h>
enum kind { KIND_A, KIND_B = 7 };
struct inner { float x[3]; struct inner *next; };
struct outer { uint8_t bits : 3; enum kind kind; struct inner in; int (*call)(struct outer *); };
union either { int i; double d; };
int use(struct outer *o, union either e) { return o->call(o) + e.i; }
"""


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Small libraries and an object file, DWARF 4 and 5."""
    folder = tmp_path_factory.mktemp("binaries")
    (folder / "a.c").write_text(SOURCE)
    found = []
    for flags in (["-gdwarf-4", "-shared"], ["-gdwarf-5", "-shared"], ["-gdwarf-5", "-c"]):
        command = ["cc", "-g", *flags, "-fPIC", "-o", "out", "a.c"]
        subprocess.run(command, cwd=folder, check=True)
        found.append((folder / "out").read_bytes())
    return found


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises if the body takes longer: a reader that hangs is a finding."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


MUTATIONS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8
)


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(which=st.integers(0, 2), changes=MUTATIONS, cut=st.none() | st.floats(0, 1))
def test_damaged_binaries_give_a_manifest_or_one_error(
    which: int,
    changes: list[tuple[float, int]],
    cut: float | None,
    binaries: list[bytes],
    tmp_path: Path,
) -> None:
    """Flipped bytes and cut files never end in anything but a manifest or an InputError."""
    data = bytearray(binaries[which])
    for place, byte in changes:
        data[int(place * len(data))] = byte
    path = tmp_path / "damaged.so"
    path.write_bytes(data if cut is None else data[: int(cut * len(data))])
    for read in (elf.read, dwarf.read):
        with within(20):
            gives_manifest_or_error(read, path)


def gives_manifest_or_error(read: Callable[[Path], Manifest], path: Path) -> None:
    """Whatever the bytes are, the answer is a manifest or an error that names the file."""
    try:
        found: Manifest | InputError = read(path)
    except InputError as error:
        found = error
    assert isinstance(found, Manifest) or str(path) in str(found)


def debug_info(data: bytes) -> tuple[int, int]:
    """Where `.debug_info` lies in an ELF file, told from its section table."""
    import io

    from elftools.elf.elffile import ELFFile

    section = ELFFile(io.BytesIO(data)).get_section_by_name(".debug_info")
    return section["sh_offset"], section["sh_size"]


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(which=st.integers(0, 1), changes=MUTATIONS)
def test_hostile_debug_information_neither_hangs_nor_raises(
    which: int, changes: list[tuple[float, int]], binaries: list[bytes], tmp_path: Path
) -> None:
    """Changes inside the debug entries, where links can lead back and types into themselves."""
    data = bytearray(binaries[which])
    start, size = debug_info(binaries[which])
    for place, byte in changes:
        data[start + int(place * size)] = byte
    path = tmp_path / "hostile.so"
    path.write_bytes(data)
    with within(20):
        gives_manifest_or_error(dwarf.read, path)


@given(
    text=st.text(max_size=60) | st.recursive(st.integers() | st.text(max_size=5), st.lists).map(str)
)
def test_text_that_is_no_manifest_is_one_error(text: str) -> None:
    """JSON or not, what is no manifest is refused."""
    with pytest.raises(InputError):
        load(text, "m.json")


@pytest.mark.parametrize(
    "kind", ["*" * 5000 + "i32", "struct", "fn(i32", "fn(i32) ", "[x]i32", "u", ""]
)
def test_damaged_type_in_a_manifest_is_one_error(kind: str) -> None:
    """A type that cannot be parsed, or nests without end."""
    text = (
        '{"schema": 1, "source": "header", "target": "", "pointer_size": 8, "defines": [],'
        '"records": {}, "enums": {}, "functions": {}, "constants": {},'
        f'"typedefs": {{"t": {{"type": "{kind}x"}}}},'
        '"redirects": {}, "exports": null, "needed": {}, "notes": []}'
    )
    with pytest.raises(InputError):
        load(text, "m.json")


def words(text: str, folder: Path) -> list[str]:
    return [word.replace("FOLDER", str(folder)) for word in text.split()]


@pytest.fixture
def folder(tmp_path: Path, binaries: list[bytes]) -> Path:
    """Files that are each wrong in one way, and a right header."""
    (tmp_path / "api.h").write_text("struct s { int a; };")
    (tmp_path / "broken.h").write_text("struct s { int a;")
    (tmp_path / "needy.h").write_text('#include "not_there.h"\nstruct s { int a; };')
    (tmp_path / "binary.h").write_bytes(bytes(range(256)))
    (tmp_path / "raises.py").write_text("raise OSError('no device')")
    (tmp_path / "right.py").write_text(
        "import ctypes\nclass s(ctypes.Structure): _fields_ = [('a', ctypes.c_int)]"
    )
    (tmp_path / "cdef.txt").write_text("struct s { what a; };")
    (tmp_path / "deep.h").write_text(f"struct s {{ int {'*' * 15000}a; }};")
    (tmp_path / "latin.txt").write_bytes(b"int f\xe9(void);")
    (tmp_path / "no.txt").write_text("\n# nothing\n")
    (tmp_path / 'quo"te.h').write_text("struct s { int a; };")
    (tmp_path / "line\nbreak.h").write_text("struct s { int a; };")
    (tmp_path / "no_ffi.py").write_text("x = 1")
    (tmp_path / "text.so").write_text("not an ELF file")
    (tmp_path / "cut.so").write_bytes(binaries[0][:300])
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "old.json").write_text('{"schema": 0, "records": {}}')
    (tmp_path / "plain.c").write_text("int f(void) { return 0; }")
    command = ["cc", "-shared", "-fPIC", "-o", "plain.so", "plain.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("diff FOLDER/absent.h FOLDER/api.h", "found no file"),
        ("diff FOLDER/broken.h FOLDER/api.h", "does not parse"),
        ("diff FOLDER/needy.h FOLDER/api.h", "'not_there.h' file not found"),
        ("diff FOLDER/binary.h FOLDER/api.h", "does not parse"),
        ("diff FOLDER/deep.h FOLDER/api.h", "nest too deep"),
        ("diff cffi:FOLDER/latin.txt FOLDER/api.h", "expected UTF-8"),
        ('diff FOLDER/quo"te.h FOLDER/api.h', "cannot include a path with a quote"),
        (f"diff FOLDER/{'a' * 300}.h FOLDER/api.h", "File name too long"),
        (f"diff FOLDER/{'a' * 300}.so FOLDER/api.h", "File name too long"),
        (
            "check --header FOLDER/api.h --mirror ctypes:FOLDER/right.py --library FOLDER/no.txt",
            "one symbol a line",
        ),
        ("diff FOLDER/api.h FOLDER/api.h -I FOLDER/absent", "found no folder"),
        ("diff FOLDER/api.h FOLDER/api.h --target nonsense-none", "target"),
        ("diff FOLDER/api.h FOLDER/plain.so", "expected DWARF debug information"),
        ("diff FOLDER/api.h FOLDER/text.so", "expected an ELF file"),
        ("diff FOLDER/api.h FOLDER/cut.so", "truncated or damaged"),
        ("diff FOLDER/api.h FOLDER/absent.so", "found no file"),
        ("diff FOLDER/api.h FOLDER/other.json", "expected a manifest"),
        ("diff FOLDER/api.h FOLDER/old.json", "schema 1, got 0"),
        ("diff FOLDER/api.h FOLDER/absent.json", "cannot read"),
        ("diff FOLDER/api.h what", "cannot tell what"),
        ("diff ctypes:FOLDER/raises.py FOLDER/api.h", "OSError: no device"),
        ("diff ctypes:FOLDER/absent.py FOLDER/api.h", "found no file"),
        ("diff ctypes:no.such.module FOLDER/api.h", "cannot be imported"),
        ("diff ctypes: FOLDER/api.h", "expected a file or a module"),
        ("diff cffi:FOLDER/cdef.txt FOLDER/api.h", "cffi refuses the cdef"),
        ("diff cffi:FOLDER/no_ffi.py FOLDER/api.h", "no cffi.FFI object"),
        ("diff numpy:FOLDER/no_ffi.py FOLDER/api.h", "no structured numpy dtype"),
        ("diff ctypes:FOLDER/right.py FOLDER/api.h --target aarch64-linux", "one target"),
        ("diff ctypes:FOLDER/right.py FOLDER/api.h --python /no/python", "expected an interpreter"),
        ("check --header FOLDER/api.h", "at least one --mirror"),
        ("check --mirror ctypes:FOLDER/right.py", "--header"),
        ("check --wheel FOLDER/text.so", "expected a wheel"),
        ("check --config FOLDER/absent.toml", "cannot read"),
        ("manifest FOLDER/broken.h", "does not parse"),
        ("emit FOLDER/api.h --lang c --name absent", "the library has no absent"),
    ],
)
def test_bad_input_exits_with_two_and_one_line(command: str, said: str, folder: Path) -> None:
    """The command line names what is wrong, without a traceback."""
    done = CliRunner().invoke(main, ["abi", *words(command, folder)])
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_line_break_in_a_path_is_refused(folder: Path) -> None:
    """Not read as nothing: the text after it would be a line of C."""
    path = str(folder / "line\nbreak.h")
    done = CliRunner().invoke(main, ["abi", "diff", path, path])
    assert done.exit_code == 2
    assert "line break" in done.output


def test_macros_beyond_reason_are_left_out(folder: Path) -> None:
    """Generated expressions would overrun the parser's stack; the rest of the header counts."""
    path = folder / "huge.h"
    path.write_text(
        f"#define LONG 1{'+1' * 200_000}\n#define DEEP {'(' * 500}1{')' * 500}\n#define A 1"
    )
    found = header.read(path)
    assert {"A"} == set(found.constants)


def test_output_that_cannot_be_written_is_one_error(folder: Path) -> None:
    """A path below a file."""
    words = ["abi", "manifest", str(folder / "api.h"), "-o", str(folder / "api.h/below.json")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "cannot be written" in done.output
