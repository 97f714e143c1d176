"""Storage formats: how logical values lie in memory.

A format turns values into bytes and back, block by block along the last axis. The layouts of
q8_0 and q4_0 and their encoders follow ggml (`ggml-common.h`, `ggml-quants.c`).
"""

from __future__ import annotations

from hotfire.errors import InputError
from hotfire.ref.formats import bf16, f32, i32, q4_0, q8_0
from hotfire.ref.formats._format import Array, Bytes, Format, Integers

__all__ = ["FORMATS", "Array", "Bytes", "Format", "Integers", "named"]

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (f32, i32, bf16, q8_0, q4_0)
}


def named(name: str) -> Format:
    """The format of that name.

    Raises:
        InputError: if there is none.
    """
    try:
        return FORMATS[name]
    except KeyError:
        known = ", ".join(FORMATS)
        raise InputError(f"format {name!r} is not known; expected one of: {known}") from None
