"""Quantise and dequantise: the same values in another format, as ggml's `quantize_row_q8_0_ref`,
`quantize_row_q4_0_ref` and their inverses define it (ggml-quants.c).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, named
from hotfire.ref.operation import MANY, WIDTHS, Axis, Operand, Operation, Reference, Values

LIMIT = 5e5
"""The greatest magnitude whose q4_0 scale, an eighth of it, is still a finite f16."""


def reference(x: Array) -> Values:
    """y = x; the formats do the rest."""
    return {"y": x}


def bound_for(target: str) -> Reference:
    """0 for f32, as a code times a scale is exact; else what the format's nearest codes leave."""

    def bound(x: Array) -> Values:
        fmt = named(target)
        return {"y": fmt.encoding_error(x) if fmt.is_lossy else np.zeros_like(x)}

    return bound


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Distinct neighbours, one peak of -128 a block: ties of the rounding among them."""
    shape = (sizes["n_rows"], sizes["n_cols"])
    x = rng.integers(-127, 128, size=shape).astype(np.float64)
    blocks = x.reshape(-1, 32)
    blocks[np.arange(len(blocks)), rng.integers(0, 32, size=len(blocks))] = -128
    return {"x": x * 2.0 ** rng.integers(-3, 4)}


def _operation(verb: str, dtype: str, source: str, target: str) -> Operation:
    return Operation(
        name=f"{verb}_{dtype}",
        doc=f"Stores {source} values as {target}, row by row.\ny = x\n"
        + (
            "The codes are those of ggml's reference encoder, bit for bit. Values are finite; a\n"
            "block whose 1 / d overflows f32 is stored as zeros."
            if verb == "quantize"
            else "Exact: a code times an f16 scale is an f32."
        ),
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5), long=MANY, rows=True),
            Axis(
                name="n_cols",
                doc="width of a row",
                multiple_of=named(dtype).block_len,
                edges=(32, 64, 128, 256, 1024),
                long=WIDTHS,
                neutral={"x": 0.0},
            ),
        ),
        inputs=(
            Operand(name="x", dtype=source, axes=("n_rows", "n_cols"), doc="values", limit=LIMIT),
        ),
        outputs=(Operand(name="y", dtype=target, axes=("n_rows", "n_cols"), doc="values"),),
        reference=reference,
        bound=bound_for(target),
        exact=exact,
    )


OPERATIONS = [
    operation
    for dtype in ("q8_0", "q4_0")
    for operation in (
        _operation("quantize", dtype, "f32", dtype),
        _operation("dequantize", dtype, dtype, "f32"),
    )
]
