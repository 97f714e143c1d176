"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864, eq. 34) of part of a head, in
NeoX's pairing: value i turns with value i + n_rot / 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    Axis,
    Operand,
    Operation,
    Scalar,
    Values,
    gamma,
    gaps,
)

POSITIONS = 2**18
"""Positions are drawn below this, the context of the models at hand."""


def _angles(pos: Integers, theta: float, n_rot: int) -> Array:
    """[n_tokens, 1, n_rot / 2]: pos * theta^(-2 i / n_rot)."""
    frequencies = theta ** (-2.0 * np.arange(n_rot // 2) / max(n_rot, 1))
    angles: Array = pos[:, None, None] * frequencies
    return angles


def reference(x: Array, pos: Integers, theta: float, n_rot: int) -> Values:
    """The pair (a, b) becomes (a cos - b sin, a sin + b cos); the rest is copied. In float64."""
    half = n_rot // 2
    angles = _angles(pos, theta, n_rot)
    a, b, rest = x[..., :half], x[..., half:n_rot], x[..., n_rot:]
    turned = (a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles))
    return {"y": np.concatenate([*turned, rest], axis=-1)}


def bound(x: Array, pos: Integers, theta: float, n_rot: int) -> Values:
    """3 u (|a cos| + |b sin|): a rounded cosine, a product, a sum. The angle is formed in f64,
    whose own error is 2^-48 of it: formed in f32 it would be off by pos * 2^-24.
    """
    half = n_rot // 2
    angles = _angles(pos, theta, n_rot)
    cosine, sine = np.abs(np.cos(angles)), np.abs(np.sin(angles))
    a, b = np.abs(x[..., :half]), np.abs(x[..., half:n_rot])
    drift = (a + b) * (np.abs(angles) * 2.0**-48 + SMALLEST_NORMAL) + SMALLEST_NORMAL
    first = gamma(3) * (a * cosine + b * sine) + drift
    other = gamma(3) * (a * sine + b * cosine) + drift
    return {"y": np.concatenate([first, other, np.zeros_like(x[..., n_rot:])], axis=-1)}


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Positions in any order: half of them small, the others anywhere in a long context."""
    n_tokens = sizes["n_tokens"]
    far = rng.integers(0, POSITIONS, n_tokens)
    return {"pos": np.where(rng.random(n_tokens) < 0.5, far % 40, far)}


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Position 0, which turns nothing, or zeros where a pair would turn; the rest is copied."""
    shape = (sizes["n_tokens"], sizes["n_heads"], sizes["head_dim"])
    x = 1.0 + rng.permutation(np.arange(float(np.prod(shape)))).reshape(shape)
    pos = rng.integers(0, POSITIONS, shape[0]) * rng.integers(0, 2, shape[0])
    x[pos > 0, :, : sizes["n_rot"]] = 0
    return {"x": x, "pos": pos, "theta": 10000.0}


def second(x: Array, pos: Integers, theta: float, n_rot: int) -> Values:
    """Each pair as a complex number times exp(i angle), by torch in complex128. The angles are
    shared: two ways to form them differ by more than the comparison allows at far positions.
    """
    import torch

    half = n_rot // 2
    rows = torch.from_numpy(x)
    pairs = torch.complex(rows[..., :half].contiguous(), rows[..., half:n_rot].contiguous())
    angles = torch.from_numpy(_angles(pos, theta, n_rot))
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return {"y": torch.cat([turned.real, turned.imag, rows[..., n_rot:]], dim=-1).numpy()}


OPERATIONS = [
    Operation(
        name="rope_partial",
        doc="Turns pairs of a head's first n_rot values by angles that grow with the position.\n"
        "angle(t, i) = pos[t] * theta^(-2 i / n_rot), i < h = n_rot / 2, formed in f64\n"
        "y[t, n, i] = x[t, n, i] * cos(angle) - x[t, n, i + h] * sin(angle)\n"
        "y[t, n, i + h] = x[t, n, i] * sin(angle) + x[t, n, i + h] * cos(angle)\n"
        "Values past n_rot are copied.",
        axes=(
            Axis(name="n_tokens", doc="tokens", edges=(1, 2, 5, 17), long=MANY, rows=True),
            Axis(name="n_heads", doc="heads", edges=(1, 2, 5, 16, 32), long=MANY[:2]),
            Axis(
                name="head_dim",
                doc="width of a head",
                edges=(2, 8, 16, 32, 64, 80, 96, 128, 256),
                long=(128, 256, 512, 576),
            ),
            Axis(
                name="n_rot",
                doc="values that turn",
                multiple_of=2,
                most="head_dim",
                edges=(2, 16, 32, 64, 128, 256),
            ),
            *gaps("x", "y"),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_tokens", "n_heads", "head_dim"), doc="heads"),
            Operand(name="pos", dtype="i32", axes=("n_tokens",), doc="positions"),
        ),
        outputs=(
            Operand(
                name="y",
                dtype="f32",
                axes=("n_tokens", "n_heads", "head_dim"),
                doc="heads",
                in_place="x",
            ),
        ),
        scalars=(
            Scalar(
                name="theta",
                doc="base of the frequencies; finite and > 0",
                samples=(1e4, 1e6, 1e7, 500.0),
                invalid=(0.0, -1e4, float("nan"), float("inf")),
            ),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
        structure=structure,
    )
]
