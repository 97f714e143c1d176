"""The emulator's binding is what its header says, and a kernel's arguments what its spec says."""

import subprocess

from hotfire.abi.build import drift
from hotfire.abi.readers import cffi_, header
from hotfire.lib import path
from hotfire.props.emulator import CDEF, LIBRARY

from .conftest import ROOT, scratch

NATIVE = ROOT / "native"


def declared():
    """The manifest of the emulator's header and of the mutants' functions."""
    headers = [NATIVE / "gpu/emulator/emulator.h", NATIVE / "core/mutants.h"]
    return header.read(headers, include=[NATIVE / "include"])


def functions(found):
    """Drift of functions: the binding leaves hotfire.h, which these headers include, to others."""
    return [
        each for each in found if "hotfire_emulator" in each.message and "function" in each.subject
    ]


def test_the_binding_is_what_the_header_says():
    """Every function of the header is bound, with its types."""
    assert functions(drift(cffi_.read_text(CDEF), declared())) == []


def test_a_changed_argument_is_drift():
    """The canary: one width differs."""
    wrong = CDEF.replace("uint32_t wave_size, uint64_t seed", "uint64_t wave_size, uint64_t seed")
    assert wrong != CDEF
    assert [each.rule for each in functions(drift(cffi_.read_text(wrong), declared()))] == [
        "FN_ARG_TYPE"
    ]


def test_the_library_exports_what_is_bound():
    """And the library was built from this header."""
    names = subprocess.run(
        ["nm", "-D", "--defined-only", path(LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    for name in cffi_.read_text(CDEF).functions:
        assert f" {name}\n" in names


def test_a_kernel_with_other_arguments_is_not_compiled(tmp_path):
    """The spec's C prototype and the kernel are compared by the compiler."""

    def swapped(text):
        return text.replace("float eps", "double eps")

    native = scratch(tmp_path, swapped)
    folders = ["gpu", "gpu/emulator", "include", "core", "kernels"]
    includes = [f"-I{native / folder}" for folder in folders]
    kernel = native / "gpu/kernels/rms_norm.cpp"
    done = subprocess.run(
        ["g++", "-std=c++20", "-fsyntax-only", *includes, kernel],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "the kernel's arguments differ from those of hotfire_rms_norm()" in done.stderr
