"""How operands are filled: each fill is a distribution that shows a kind of fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hotfire.ref.formats import Array, Bytes
from hotfire.ref.operation import Operand

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def _wide(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Magnitudes log-uniform over 1e-6 to 1e6: cancellation and absorption."""
    signs: Array = rng.choice(np.array([-1.0, 1.0]), shape)
    return signs * np.exp(rng.uniform(np.log(1e-6), np.log(1e6), shape))


def _outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal with one value in 50 a thousand times larger, as activations have them."""
    return rng.standard_normal(shape) * np.where(rng.random(shape) < 0.02, 1000.0, 1.0)


def _ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Halves of integers with a peak of 127 or -127 in every run of 32, and in half of the runs the
    other beside it: quantisers meet ties of codes and of peaks.
    """
    values = rng.integers(-253, 254, shape) / 2.0
    flat = values.reshape(-1)
    flat[::32] = rng.choice(np.array([-127.0, 127.0]), flat[::32].shape)
    beside = flat[1::32]
    beside[:] = np.where(rng.random(beside.shape) < 0.5, -flat[::32][: len(beside)], beside)
    return values


def _tiny(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Magnitudes of 1e-30 to 1e-20: scales and squares underflow."""
    return _wide(rng, shape) * 1e-24


def _minute(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Magnitudes of 1e-45 to 1e-35: a block's 1 / d overflows f32, or nearly does."""
    signs: Array = rng.choice(np.array([-1.0, 1.0]), shape)
    return signs * 10.0 ** rng.uniform(-45, -35, (*shape[:-1], 1)) * rng.uniform(0.1, 1, shape)


FILLS: dict[str, Draw | None] = {
    "normal": _normal,
    "wide": _wide,
    "outliers": _outliers,
    "ties": _ties,
    "tiny": _tiny,
    "minute": _minute,
    "raw": None,
    "wild": None,
    "exact": None,
}
"""Names of the fills. "raw" draws codes and scales of quantised operands directly, "wild" also
codes that no encoder writes (-128 in q8_0), "minute" asks for an encoding that other libraries
leave undefined, "exact" is the operation's own."""

RANDOM_FILLS = tuple(name for name in FILLS if name not in ("wild", "minute", "exact"))


def fill(name: str, rng: np.random.Generator, operand: Operand, shape: tuple[int, ...]) -> Bytes:
    """Bytes for an operand, every value finite and within the operand's limit."""
    if name in ("raw", "wild") and operand.format.is_lossy:
        return _raw(rng, operand, shape, -128 if name == "wild" else operand.format.lowest_code)
    draw = FILLS[name] or _normal
    return operand.format.encode(np.clip(draw(rng, shape), -operand.limit, operand.limit))


def _raw(rng: np.random.Generator, operand: Operand, shape: tuple[int, ...], lowest: int) -> Bytes:
    """Codes from `lowest` up, f16 scales of either sign, subnormal and zero among them."""
    blocks = operand.format.n_bytes(shape) // operand.format.block_size
    codes = rng.integers(lowest, 128, (blocks, operand.format.block_size), dtype=np.int8)
    stored = codes.view(np.uint8)
    exponents = rng.uniform(-9, 1, blocks)
    scales = rng.choice([-1.0, 1.0, 1.0, 0.0], blocks) * 10.0**exponents
    stored[:, :2] = scales.astype("<f2").view(np.uint8).reshape(-1, 2)
    return stored.reshape(-1)
