"""Elementwise gates: SwiGLU (Shazeer 2020, arXiv 2002.05202, eq. 6) and the sigmoid gate of
attention outputs (Qiu et al. 2025, arXiv 2505.06708, eq. 5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    WIDTHS,
    Axis,
    Operand,
    Operation,
    Values,
    exp_drift,
    gamma,
)


def swiglu(gate: Array, up: Array) -> Values:
    """y = gate / (1 + exp(-gate)) * up, in float64."""
    return {"y": gate / (1 + np.exp(-gate)) * up}


def swiglu_bound(gate: Array, up: Array) -> Values:
    """9 u |y|: SiLU's eight and the product, and SiLU's `exp_drift`; where exp overflows f32, SiLU
    may be flushed.
    """
    flush = (np.abs(gate) * (np.abs(up) + 1) + 1) * SMALLEST_NORMAL
    drift = exp_drift(gate) / (1 + np.exp(gate))
    return {"y": (gamma(9) + drift) * np.abs(swiglu(gate, up)["y"]) + flush}


def swiglu_exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Gates of 30 and more, which SiLU leaves alone, zeros, and those below -200, which it makes 0;
    ups are distinct integers.
    """
    shape = (sizes["n_rows"], sizes["n_cols"])
    gate = np.choose(rng.integers(0, 3, shape), [rng.integers(30, 94, shape), 0, -200])
    up = rng.permutation(np.arange(shape[0] * shape[1])).reshape(shape) + 1
    return {"gate": gate.astype(np.float64), "up": up.astype(np.float64)}


def swiglu_second(gate: Array, up: Array) -> Values:
    """`torch.nn.functional.silu` in float64, times up."""
    import torch

    return {"y": torch.nn.functional.silu(torch.from_numpy(gate)).numpy() * up}


def sigmoid_gate(x: Array, gate: Array) -> Values:
    """y = x / (1 + exp(-gate)), in float64."""
    return {"y": x / (1 + np.exp(-gate))}


def sigmoid_gate_bound(x: Array, gate: Array) -> Values:
    """8 u |y|: 2 ulp for exp, the sum, the division; and `exp_drift` as far as exp counts beside 1.
    Where exp overflows f32 it may be flushed.
    """
    want = np.abs(sigmoid_gate(x, gate)["y"])
    drift = exp_drift(gate) / (1 + np.exp(gate))
    return {"y": (gamma(8) + drift) * want + (np.abs(x) + 1) * SMALLEST_NORMAL}


def sigmoid_gate_exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Gates of 30 or more, where the sigmoid is 1, of 0, where it is 1/2, and below -200: 0."""
    shape = (sizes["n_rows"], sizes["n_cols"])
    gate = np.choose(rng.integers(0, 3, shape), [rng.integers(30, 94, shape), 0, -200])
    x = rng.permutation(np.arange(shape[0] * shape[1])).reshape(shape) + 1
    return {"x": x.astype(np.float64), "gate": gate.astype(np.float64)}


def sigmoid_gate_second(x: Array, gate: Array) -> Values:
    """`torch.sigmoid` in float64, times x."""
    import torch

    return {"y": torch.sigmoid(torch.from_numpy(gate)).numpy() * x}


def _operation(name: str, doc: str, inputs: tuple[tuple[str, str], ...], **given: Any) -> Operation:
    axes = ("n_rows", "n_cols")
    operands = tuple(
        Operand(name=each, dtype="f32", axes=axes, doc=what, limit=1e6) for each, what in inputs
    )
    return Operation(
        name=name,
        doc=doc,
        axes=(
            Axis(name="n_rows", doc="rows", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(
                name="n_cols",
                doc="width of a row",
                long=(*WIDTHS, 11008, 14336, 65537),
                neutral={each.name: 0.0 for each in operands},
            ),
        ),
        inputs=operands,
        outputs=(
            Operand(name="y", dtype="f32", axes=axes, doc="result", in_place=operands[0].name),
        ),
        **given,
    )


OPERATIONS = [
    _operation(
        "swiglu",
        "Gates one half of a feed-forward layer by the other.\n"
        "y[r, i] = gate[r, i] / (1 + exp(-gate[r, i])) * up[r, i]",
        (("gate", "gates"), ("up", "what they gate")),
        reference=swiglu,
        bound=swiglu_bound,
        exact=swiglu_exact,
        second=swiglu_second,
    ),
    _operation(
        "sigmoid_gate",
        "Weighs values by the sigmoid of their gates.\ny[r, i] = x[r, i] / (1 + exp(-gate[r, i]))",
        (("x", "values"), ("gate", "gates")),
        reference=sigmoid_gate,
        bound=sigmoid_gate_bound,
        exact=sigmoid_gate_exact,
        second=sigmoid_gate_second,
    ),
]
