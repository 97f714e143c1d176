"""What a header says and what its own compiled library says are one thing: no false alarm."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotfire.abi.checks import compare
from hotfire.abi.manifest import Manifest
from hotfire.abi.readers import dwarf, header

TEXTS = {
    "unnamed_records_in_unnamed_unions": """
        struct keys {
          uint16_t a; uint8_t b;
          union {
            struct { uint32_t v4_from; uint32_t v4_to; };
            struct { uint32_t v6_from[4]; uint32_t v6_to[4]; };
          };
          union { struct { union { struct { uint8_t n, rest[15]; }; }; }; char raw[32]; } u;
          uint32_t tail;
        };
        void f(struct keys *k);""",
    "packing_that_moves_nothing": """
        struct __attribute__((packed)) flags { uint32_t a; uint32_t b; };
        struct holder { uint8_t n; struct flags f; };
        void f(struct holder *h);""",
    "function_without_a_prototype": "int f();",
    "limits_of_the_c_library": """
        #include <limits.h>
        #include <pthread.h>
        struct s { char path[PATH_MAX]; int a[INT_MAX > 1 ? 2 : 3]; pthread_t t; };
        void f(struct s *s);""",
    "file_of_stdio": """
        #include <stdio.h>
        int f(FILE *out);""",
    "atomic_and_half": """
        #include <stdatomic.h>
        struct s { atomic_int n; _Float16 h; _Atomic(_Bool) b; };
        void f(struct s *s);""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_library_agrees_with_its_header(name: str, tmp_path: Path) -> None:
    """In both directions, whichever of the two is the mirror."""
    path = tmp_path / "api.h"
    path.write_text(f"#include <stdint.h>\n{TEXTS[name]}\n")
    (tmp_path / "api.c").write_text('#include "api.h"\nvoid *use[] = {(void *)&f};\n')
    command = ["cc", "-g", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types"]
    subprocess.run([*command, "-o", "lib.so", "api.c"], cwd=tmp_path, check=True)
    declared = header.read(path)
    built = replace(dwarf.read(tmp_path / "lib.so", names=declared.names()), exports=None)
    for mirror, library in ((declared, built), (built, declared)):
        assert [f.message for f in compare(mirror, library) if f.severity.gates] == []


def test_alignment_that_debug_information_states_is_compared(
    tmp_path: Path, read_header: Callable[..., Manifest]
) -> None:
    """A mirror that is aligned further than the library was built."""
    (tmp_path / "api.c").write_text("struct s { int a[4]; } s;\n")
    command = ["cc", "-g", "-shared", "-fPIC", "-o", "lib.so", "api.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    mirror = read_header("struct s { int a[4]; } __attribute__((aligned(16)));")
    found = compare(mirror, dwarf.read(tmp_path / "lib.so"))
    assert [each.rule for each in found] == ["RECORD_ALIGN"]
