"""What the libraries export, and that no instruction set's code can run on another's machine."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hotfire import lib

AVX2 = ("-mavx2", "-mfma", "-mf16c")
FLAGS = {
    "scalar": (),
    "avx2": AVX2,
    "avx512": (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
}


def _defined(path: Path, table: str) -> list[tuple[str, str]]:
    """(name, binding) of the functions and objects that a file defines."""
    with path.open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(table)
        return [
            (symbol.name, symbol["st_info"]["bind"])
            for symbol in symbols.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF"
            and symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT", "STT_GNU_IFUNC")
        ]


def test_shipped_library_exports_its_headers_and_nothing_else():
    """No C++ names, no mutants."""
    exported = {name for name, _ in _defined(lib.path(), ".dynsym")}
    assert {"hotfire_abi_version", "hotfire_context_create", "hotfire_softmax"} <= exported
    assert all(name.startswith("hotfire_") for name in exported)
    assert not any("mutant" in name for name, _ in _defined(lib.path(), ".symtab"))


def test_mutants_library_is_the_shipped_one_and_four_functions_more():
    """So that what is proven of one holds for the other."""
    if not lib.path(lib.MUTANTS).is_file():
        pytest.skip("built without mutants")
    more = {name for name, _ in _defined(lib.path(lib.MUTANTS), ".dynsym")}
    more -= {name for name, _ in _defined(lib.path(), ".dynsym")}
    assert more == {f"hotfire_mutant_{noun}" for noun in ("name", "operation", "doc", "select")}


@pytest.mark.parametrize("isa", FLAGS)
def test_kernels_share_no_code_between_instruction_sets(tmp_path, native_folder, isa):
    """A weak symbol outside the set's own namespace could be taken from any of the objects, and so
    could one that two kernels of a family define differently.

    Compiled without optimisation, where every inline function becomes a symbol.
    """
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    kernels = sorted((native_folder / "kernels").glob("*.cpp"))
    folders = [f"-I{native_folder / each}" for each in ("include", "kernels")]
    defines = [f"-DHOTFIRE_ISA={isa}", f'-DHOTFIRE_SIMD="simd_{isa}.hpp"']
    flags = [compiler, "-std=c++20", "-O0", "-fno-exceptions", *FLAGS[isa], *defines, *folders]
    # The intrinsics are most of what is parsed: precompiled, they are parsed once.
    first = tmp_path / "first.hpp"
    first.write_text("#include <stdint.h>\n" if isa == "scalar" else "#include <immintrin.h>\n")
    subprocess.run([*flags, "-x", "c++-header", first, "-o", f"{first}.gch"], check=True)

    def shared_by(kernel: Path) -> set[str]:
        output = tmp_path / f"{kernel.stem}.o"
        subprocess.run([*flags, "-include", first, "-c", kernel, "-o", output], check=True)
        return {name for name, bind in _defined(output, ".symtab") if bind != "STB_LOCAL"}

    own = f"_ZN7hotfire{len(isa)}{isa}"
    with ThreadPoolExecutor(2) as pool:
        for kernel, shared in zip(kernels, pool.map(shared_by, kernels), strict=True):
            # Its entry alone: what has a name that another kernel could use too may differ there.
            entry = f"{own}{len(kernel.stem)}{kernel.stem}E"
            assert len(shared) == 1, (kernel.stem, shared)
            assert all(name.startswith(entry) for name in shared)
