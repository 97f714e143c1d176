"""Readers against the C compiler's own sizeof and offsetof, and against each other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.abi.checks import compare
from hotfire.abi.manifest import Manifest, dump, load
from hotfire.abi.readers import cffi_, child, ctypes_, dwarf
from hotfire.errors import InputError

HEADER = """
typedef struct { int a; struct { float x; } in; union { int q; double r; }; } unnamed_tag;
typedef struct bits_s { int a : 3; unsigned b : 5; uint64_t c : 33; } bits_t;
typedef enum { A, B = 5 } plain;
enum named { N1 = -1 };
enum { ANONYMOUS = 7 };
struct flexible { int n; char data[]; };
struct __attribute__((packed)) packed_s { char c; int i; };
struct node { struct node *next; struct node *(*visit)(struct node *, void *); };
struct opaque;
typedef int (*callback)(int x, void *user);
#define LIMIT (1 << 12)
#define RATIO 2.5f
#define TITLE "title"
#define CAST ((uint8_t)300)
#define ALIAS LIMIT
#define IGNORED __attribute__((unused))
int run(unnamed_tag *p, callback c, int row[3], bits_t b, plain e, enum named n,
        struct flexible *q, struct packed_s k, bool z, struct opaque *o, struct node *l, ...);
"""

PROBE = """
#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
%s
#define FIELD(record, field) printf(#record "." #field " %%zu\\n", offsetof(record, field))
#define SIZE(record) printf(#record " %%zu %%zu\\n", sizeof(record), _Alignof(record))
int main(void) {
    SIZE(unnamed_tag); SIZE(bits_t); SIZE(struct flexible); SIZE(struct packed_s);
    SIZE(struct node);
    FIELD(unnamed_tag, a); FIELD(unnamed_tag, in); FIELD(unnamed_tag, q); FIELD(unnamed_tag, r);
    FIELD(struct flexible, data); FIELD(struct packed_s, i); FIELD(struct node, visit);
    printf("LIMIT %%d\\nCAST %%d\\n", LIMIT, CAST);
    return 0;
}
"""

NAMES = {"bits_t": "bits_s"}


@pytest.fixture
def manifest(read_header: Callable[..., Manifest]) -> Manifest:
    return read_header(HEADER)


def test_header_agrees_with_the_compiler(manifest: Manifest, run_c: Callable[[str], str]) -> None:
    """Every size, alignment, offset and constant is what the system's compiler says."""
    for line in run_c(PROBE % HEADER).splitlines():
        what, *numbers = line.removeprefix("struct ").split()
        name, _, field = what.partition(".")
        if field:
            record = manifest.records[name]
            places = {member.name: member.offset for member in manifest.flat_fields(record)}
            assert places[field] == int(numbers[0]), what
        elif len(numbers) == 2:
            record = manifest.records[NAMES.get(name, name)]
            assert [record.size, record.align] == [int(n) for n in numbers], what
        else:
            assert manifest.constants[name].value == int(numbers[0]), what


def test_bitfields_are_where_the_compiler_puts_them(
    manifest: Manifest, run_c: Callable[[str], str]
) -> None:
    """A field set to all ones shows its bits in memory."""
    program = f"""
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
{HEADER}
int main(void) {{
    union {{ bits_t bits; unsigned char bytes[sizeof(bits_t)]; }} u;
    for (int which = 0; which < 3; which++) {{
        memset(&u, 0, sizeof u);
        if (which == 0) u.bits.a = -1;
        if (which == 1) u.bits.b = ~0u;
        if (which == 2) u.bits.c = ~0ull;
        int first = -1, count = 0;
        for (unsigned bit = 0; bit < 8 * sizeof u; bit++)
            if (u.bytes[bit / 8] >> bit % 8 & 1) {{ if (first < 0) first = bit; count++; }}
        printf("%d %d\\n", first, count);
    }}
    return 0;
}}
"""
    seen = [tuple(map(int, line.split())) for line in run_c(program).splitlines()]
    fields = manifest.records["bits_s"].fields
    assert [(member.bit_offset, member.bit_width) for member in fields] == seen


def test_constants_have_the_values_of_the_language(manifest: Manifest) -> None:
    """Macros are evaluated by the compiler: casts, shifts, floats, strings, other macros."""
    values = {name: constant.value for name, constant in manifest.constants.items()}
    assert values == {
        "LIMIT": 4096,
        "RATIO": 2.5,
        "TITLE": "title",
        "CAST": 300 % 256,
        "ALIAS": 4096,
        "ANONYMOUS": 7,
    }


@pytest.mark.parametrize("version", ["4", "5"])
def test_debug_information_says_what_the_header_says(
    version: str, manifest: Manifest, tmp_path: Path
) -> None:
    """DWARF and libclang agree on every record, enum and function."""
    source, library = tmp_path / "lib.c", tmp_path / "lib.so"
    body = HEADER.replace("l, ...);", "l, ...) { return ANONYMOUS; }")
    source.write_text(f"#include <stdint.h>\n#include <stdbool.h>\n{body}")
    command = ["cc", "-g", f"-gdwarf-{version}", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True)
    found = dwarf.read(library)
    assert found.records == {name: replace(r, location="") for name, r in manifest.records.items()}
    assert found.enums == {name: replace(e, location="") for name, e in manifest.enums.items()}
    assert found.functions["run"].type == manifest.functions["run"].type
    assert found.functions["run"].names == manifest.functions["run"].names
    assert found.exports == ("run",)


def test_cffi_says_what_the_header_says(manifest: Manifest) -> None:
    """A cdef of the same text has the same layouts; cffi itself promotes unnamed members."""
    text = HEADER.replace("__attribute__((packed))", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found = cffi_.read_text(text)
    for name in ("unnamed_tag", "bits_s", "flexible", "node"):
        want = [
            (m.name, m.bit_offset, m.bit_width)
            for m in manifest.flat_fields(manifest.records[name])
        ]
        got = [(m.name, m.bit_offset, m.bit_width) for m in found.flat_fields(found.records[name])]
        assert got == want
        assert found.records[name].size == manifest.records[name].size
    assert found.functions["run"].type == manifest.functions["run"].type
    assert found.functions["run"].names == manifest.functions["run"].names


def test_manifest_survives_its_file(manifest: Manifest) -> None:
    """What is written can be read, and writing it again gives the same bytes."""
    text = dump(manifest, locations=True)
    assert load(text, "m.json") == manifest
    assert dump(load(text, "m.json"), locations=True) == text


def test_targets_differ_as_their_abis_do(read_header: Callable[..., Manifest]) -> None:
    """The same text on four machines: widths that the ABI documents give."""
    text = "struct s { char c; long l; void *p; long double d; double e; };"
    sizes = {}
    for target in ("x86_64-linux", "i686-linux", "x86_64-windows-msvc", "wasm32-wasi"):
        record = read_header(text, target=target).records["s"]
        sizes[target] = (record.size, record.fields[1].offset, record.fields[2].offset)
    assert sizes == {
        "x86_64-linux": (64, 8, 16),
        "i686-linux": (32, 4, 8),
        "x86_64-windows-msvc": (32, 4, 8),
        "wasm32-wasi": (48, 4, 8),
    }


MIRROR = """
import ctypes, functools, os
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_int, c_void_p, c_char_p, c_double
path = os.path.join(os.path.dirname(__file__), "lib", "libthing.so")
if not os.path.exists(path):
    raise FileNotFoundError(path)
lib = ctypes.CDLL(path)
THING_MAX = 12
LIMIT_FROM_CALL = lib.thing_limit()
class Inner(Union):
    _fields_ = [("i", c_int), ("d", c_double)]
class thing(Structure):
    _anonymous_ = ["u"]
    _fields_ = [("kind", c_int), ("low", c_int, 3), ("high", c_int, 5), ("u", Inner)]
thing_p = POINTER(thing)
def bind(name, argtypes, restype):
    def wrap(stub):
        function = getattr(lib, name)
        function.argtypes, function.restype = argtypes, restype
        functools.wraps(stub)(function)
        return function
    return wrap
@bind("thing_make", [c_char_p, c_int], thing_p)
def thing_make(name, size): ...
thing_drop = CFUNCTYPE(None, thing_p)(("thing_drop", lib))
if hasattr(lib, "thing_maybe"):
    pass
"""


def test_ctypes_is_read_without_its_library(tmp_path: Path) -> None:
    """Decorated bindings, prototypes, unions and bitfields, of a library that does not exist."""
    mirror = tmp_path / "binding.py"
    mirror.write_text(MIRROR)
    found = ctypes_.read(str(mirror))
    assert sorted(found.functions) == ["thing_drop", "thing_make"]
    assert str(found.functions["thing_make"].type) == "fn(*char, i32) *struct thing"
    assert found.functions["thing_make"].names == ("name", "size")
    record = found.records["thing"]
    assert (record.size, record.align) == (16, 8)
    flat = [(m.name, m.bit_offset, m.bit_width) for m in found.flat_fields(record)]
    assert flat == [
        ("kind", 0, None),
        ("low", 32, 3),
        ("high", 35, 5),
        ("i", 64, None),
        ("d", 64, None),
    ]
    assert found.constants["THING_MAX"].value == 12
    assert "LIMIT_FROM_CALL" not in found.constants


def test_mirror_inside_a_package_does_not_run_the_package(tmp_path: Path) -> None:
    """A package whose __init__ needs what is not installed does not stand in the way."""
    package = tmp_path / "binding"
    package.mkdir()
    (package / "__init__.py").write_text("import a_module_that_is_not_there")
    (package / "names.py").write_text("from ctypes import c_int as number")
    (package / "low.py").write_text(
        "from .names import number\nimport ctypes\n"
        "class s(ctypes.Structure):\n    _fields_ = [('a', number)]\n"
    )
    assert ctypes_.read(str(package / "low.py")).records["s"].size == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no device')", "RuntimeError: no device"),
        ("import sys; sys.exit('stop')", "stop"),
        ("import os; os._exit(7)", "code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "code -11"),
        ("def (:", "SyntaxError"),
    ],
)
def test_mirror_that_cannot_be_imported_is_one_error(text: str, said: str, tmp_path: Path) -> None:
    """Whatever importing it does, the caller gets one sentence."""
    mirror = tmp_path / "binding.py"
    mirror.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        ctypes_.read(str(mirror))
    assert "\n" not in str(caught.value)


BUILD_SCRIPT = '''
import cffi
ffibuilder = cffi.FFI()
ffibuilder.cdef("""
struct whole { int a; double b; };
struct partial { int a; ...; };
typedef struct { int x; } unnamed;
enum kind { KIND_A, KIND_B = 4 };
#define LIMIT 3
int f(struct whole *w, struct partial *p, enum kind k);
""")
ffibuilder.set_source("_compiled", """
struct whole { int a; double b; };
struct partial { int hidden; int a; };
typedef struct { int x; } unnamed;
enum kind { KIND_A, KIND_B = 4 };
#define LIMIT 3
static int f(struct whole *w, struct partial *p, enum kind k) { return 0; }
""")
if __name__ == "__main__":
    ffibuilder.compile()
'''


def test_compiled_cffi_is_read_as_the_compiler_made_it(tmp_path: Path) -> None:
    """API mode: the module knows what the C compiler filled in, the build script does not."""
    script = tmp_path / "build_it.py"
    script.write_text(BUILD_SCRIPT)
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True)
    (module,) = tmp_path.glob("_compiled*.so")
    compiled, declared = cffi_.read(str(module)), cffi_.read(str(script))
    for found in (compiled, declared):
        record = found.records["whole"]
        assert (record.size, [m.offset for m in record.fields]) == (16, [0, 8])
        assert str(found.functions["f"].type) == (
            "fn(*struct whole, *struct partial, enum kind) i32"
        )
        assert found.values["KIND_B"] == 4
        assert found.values["LIMIT"] == 3
    assert compiled.records["partial"].fields[0].offset == 4
    assert declared.records["partial"].opaque


def test_unusual_types_are_sized(
    read_header: Callable[..., Manifest], run_c: Callable[[str], str]
) -> None:
    """Half precision, complex, vectors, 128 bits, atomics, zero-length arrays."""
    text = """
typedef float float4 __attribute__((vector_size(16)));
struct unusual { _Float16 h; float _Complex c; float4 v; __int128 w; _Atomic int a; int last[0]; };
"""
    record = read_header(text).records["unusual"]
    program = f"""
#include <stdio.h>
#include <stddef.h>
{text}
#define AT(field) printf("%zu ", offsetof(struct unusual, field))
int main(void) {{ AT(h); AT(c); AT(v); AT(w); AT(a); AT(last);
    printf("%zu", sizeof(struct unusual)); return 0; }}
"""
    want = [int(word) for word in run_c(program).split()]
    assert [*(member.offset for member in record.fields), record.size] == want
    assert str(record.fields[0].type) == "f16"


def test_cpp_header_is_read_as_cpp(read_header: Callable[..., Manifest]) -> None:
    """Linkage blocks, scoped enums, methods, constants."""
    text = """
#include <cstdint>
enum class level : std::uint8_t { low, high = 7 };
struct point { float x = 0; float y = 0; float length() const; };
extern "C" { int measure(const point &p, level l); }
#define LIMIT 12
"""
    found = read_header(text.replace("std::", ""), language="c++")
    assert found.records["point"].size == 8
    assert [m.name for m in found.records["point"].fields] == ["x", "y"]
    assert found.enums["level"].base.size == 1
    assert str(found.functions["measure"].type) == "fn(*struct point, enum level) i32"
    assert found.constants["LIMIT"].value == 12


def test_what_a_mirror_prints_is_not_taken_for_its_manifest(tmp_path: Path) -> None:
    """Prints at import go elsewhere, even those past Python's own stream."""
    mirror = tmp_path / "binding.py"
    mirror.write_text(
        "import ctypes, os\nprint('loading')\nos.write(1, b'more')\n"
        "class s(ctypes.Structure): _fields_ = [('a', ctypes.c_int)]\n"
    )
    assert ctypes_.read(str(mirror)).records["s"].size == 4


def test_mirror_that_hangs_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out, not a wait for ever."""
    monkeypatch.setattr(child, "SECONDS", 1)
    mirror = tmp_path / "binding.py"
    mirror.write_text("import time\ntime.sleep(60)")
    with pytest.raises(InputError, match="longer than 1 s"):
        ctypes_.read(str(mirror))


def test_another_interpreter_sees_only_hotfire_of_ours(tmp_path: Path) -> None:
    """`--python`: packages of this environment are not mixed into the other's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    mirror = tmp_path / "binding.py"
    mirror.write_text("import ctypes\ntry:\n    import cffi\nexcept ImportError:\n    ABSENT = 1\n")
    found = ctypes_.read(str(mirror), python=str(tmp_path / "v/bin/python"))
    assert "ABSENT" in found.constants


def test_debug_information_is_searched_for_names(manifest: Manifest, tmp_path: Path) -> None:
    """Only what is asked for, and what that reaches, is read."""
    source, library = tmp_path / "lib.c", tmp_path / "lib.so"
    source.write_text(
        "#include <stdint.h>\n#include <stdbool.h>\n" + HEADER + "struct node n; bits_t b;"
    )
    command = ["cc", "-g", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True)
    found = dwarf.read(library, names={"bits_s"})
    assert set(found.records) == {"bits_s"}
    assert found.records["bits_s"].fields == manifest.records["bits_s"].fields


def test_a_finding_names_the_line_of_the_field(read_header: Callable[..., Manifest]) -> None:
    """Annotations land on the field, not on the record."""
    before = read_header("struct s {\n  int a;\n  int b;\n};")
    after = read_header("struct s {\n  int a;\n  int64_t b;\n};")
    (found,) = (each for each in compare(before, after) if each.rule == "FIELD_WIDTH")
    assert found.location == "api.h:6"


def test_a_macro_that_renames_a_type_is_an_alias(read_header: Callable[..., Manifest]) -> None:
    """`#define props props_v2`: a mirror that says `props` means the new record."""
    header = read_header(
        "#define props props_v2\ntypedef struct props { int a; double b; } props;\n"
        "int get(props *out);"
    )
    mirror = cffi_.read_text("typedef struct { int a; } props; int get(props *out);")
    assert header.records["props_v2"].aliases == ("props",)
    found = {(each.rule, each.subject.get("record")) for each in compare(mirror, header)}
    assert ("RECORD_SIZE", "props") in found


def test_host_headers_are_found_where_ours_do_not_suffice(
    read_header: Callable[..., Manifest], run_c: Callable[[str], str]
) -> None:
    """A header that needs more of the C library than we ship, for this machine only."""
    text = "#include <pthread.h>\n#include <time.h>\nstruct s { pthread_mutex_t m; int a; };"
    found = read_header(text)
    body = 'int main(void) { printf("%zu", sizeof(struct s)); return 0; }'
    program = f"#include <stdio.h>\n{text}\n{body}"
    assert found.records["s"].size == int(run_c(program))
    assert found.notes
    with pytest.raises(InputError, match=r"pthread\.h' file not found"):
        read_header(text, target="s390x-linux")


def test_cpp_header_may_use_the_standard_library(read_header: Callable[..., Manifest]) -> None:
    """A C++ header that includes what only this machine has."""
    text = "#include <vector>\n#include <string>\nstruct s { int a; double b; };"
    assert read_header(text, language="c++").records["s"].size == 16
