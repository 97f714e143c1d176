"""The provider `ggml`: kernels of libggml, from the `libggml-python` wheel or a folder of yours.

`ggml` takes the wheel's libraries, `ggml:FOLDER` those in a folder. It is an adapter like any
user's: a cdef, a table of which symbol computes which operation, and one function a shape of call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cffi

from hotfire.errors import InputError
from hotfire.props.provider import Call, Kernel, Provider
from hotfire.ref.formats import named

_CDEF = """
typedef void convert_row(const void *x, void *y, int64_t k);
typedef void vec_dot(int n, float *s, size_t bs, const void *x, size_t bx, const void *y,
                     size_t by, int nrc);
const char *ggml_version(void);
void ggml_cpu_init(void);
"""

_CONVERSIONS = (
    ("quantize_q8_0", "reference", "quantize_row_q8_0_ref"),
    ("quantize_q8_0", "generic", "quantize_row_q8_0_generic"),
    ("quantize_q8_0", "simd", "quantize_row_q8_0"),
    ("quantize_q4_0", "reference", "quantize_row_q4_0_ref"),
    ("quantize_q4_0", "simd", "quantize_row_q4_0"),
    ("dequantize_q8_0", "reference", "dequantize_row_q8_0"),
    ("dequantize_q4_0", "reference", "dequantize_row_q4_0"),
)
_DOTS = (
    ("matvec_q8_0", "generic", "ggml_vec_dot_q8_0_q8_0_generic"),
    ("matvec_q8_0", "simd", "ggml_vec_dot_q8_0_q8_0"),
    ("matvec_q4_0", "generic", "ggml_vec_dot_q4_0_q8_0_generic"),
    ("matvec_q4_0", "simd", "ggml_vec_dot_q4_0_q8_0"),
    ("matvec_f32", "simd", "ggml_vec_dot_f32"),
)


def provide(argument: str) -> Provider:
    """The kernels of the wheel's libggml, or of the folder that `argument` names."""
    folder = Path(argument) if argument else _wheel()
    ffi = cffi.FFI()
    ffi.cdef(_CDEF)
    libraries = [_open(ffi, folder / f"libggml-{part}.so") for part in ("base", "cpu")]
    base, cpu = libraries
    cpu.ggml_cpu_init()
    kernels = [
        Kernel(
            operation=operation,
            variant=variant,
            call=_convert(ffi, _symbol(ffi, "convert_row *", symbol, folder)),
            reference_encoding=variant == "reference",
            row_invariant=True,
        )
        for operation, variant, symbol in _CONVERSIONS
    ]
    kernels += [
        Kernel(
            operation=operation,
            variant=variant,
            call=_matvec(ffi, _symbol(ffi, "vec_dot *", symbol, folder), operation),
            row_invariant=True,
        )
        for operation, variant, symbol in _DOTS
    ]
    version = ffi.string(base.ggml_version()).decode()
    return Provider(
        name=f"ggml:{argument}" if argument else "ggml", version=version, kernels=kernels
    )


def _wheel() -> Path:
    spec = find_spec("libggml")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "libggml is not installed; run `pip install libggml-python`, or name a "
            "folder that holds libggml-base.so and libggml-cpu.so: ggml:FOLDER"
        )
    return Path(spec.submodule_search_locations[0]) / "lib64"


def _open(ffi: Any, path: Path) -> Any:
    try:
        return ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
    except OSError as error:
        raise InputError(f"{path} cannot be loaded: {error}") from error


def _symbol(ffi: Any, kind: str, name: str, folder: Path) -> Any:
    """The address of a symbol in either library; which of the two has it varies by release."""
    for part in ("cpu", "base"):
        library = ctypes.CDLL(str(folder / f"libggml-{part}.so"))
        if hasattr(library, name):
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            return ffi.cast(kind, address)
    raise InputError(f"{folder}: neither libggml-cpu.so nor libggml-base.so exports {name}")


def _convert(ffi: Any, function: Any) -> Callable[[Call], None]:
    def call(arguments: Call) -> None:
        count = arguments.sizes["n_rows"] * arguments.sizes["n_cols"]
        x, y = (ffi.cast("void *", arguments.pointers[name]) for name in ("x", "y"))
        function(x, y, count)

    return call


def _matvec(ffi: Any, function: Any, operation: str) -> Callable[[Call], None]:
    """One dot product a row; ggml's own matrix product does the same for one column."""
    weight = named(operation.removeprefix("matvec_"))

    def call(arguments: Call) -> None:
        n_cols = arguments.sizes["n_cols"]
        row_size = weight.n_bytes((n_cols,))
        x = ffi.cast("void *", arguments.pointers["x"])
        for row in range(arguments.sizes["n_rows"]):
            y = ffi.cast("float *", arguments.pointers["y"] + 4 * row)
            at = ffi.cast("void *", arguments.pointers["weight"] + row * row_size)
            function(n_cols, y, 0, at, 0, x, 0, 1)

    return call
