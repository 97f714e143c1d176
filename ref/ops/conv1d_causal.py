"""Depthwise causal convolution over time with a carried state, then SiLU, as in front of Gated
DeltaNet (arXiv 2412.06464, sec. 3.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotfire.ref.formats import Array, Integers
from hotfire.ref.operation import (
    MANY,
    SMALLEST_NORMAL,
    WIDTHS,
    Axis,
    Operand,
    Operation,
    Sequences,
    Values,
    exp_drift,
    gamma,
)
from hotfire.ref.sequences import draw_flags, draw_starts, spans

SILU_SLOPE = 1.1
"""The steepest slope of SiLU is 1.0998, at x = 2.4."""


def _columns(x: Array, state: Array, seq_start: Integers, has_state: Integers) -> list[Array]:
    """A sequence's columns each: width - 1 of the state, or zeros, then those of the call."""
    return [
        np.concatenate([state[s] if has_state[s] else np.zeros_like(state[s]), x[first:end]])
        for s, (first, end) in enumerate(spans(seq_start))
    ]


def _convolve(x: Array, weight: Array, columns: list[Array], starts: Integers) -> Array:
    """Sums of taps, before SiLU."""
    sums = np.zeros_like(x)
    for (first, end), mine in zip(spans(starts), columns, strict=True):
        for tap, gains in enumerate(weight):
            sums[first:end] += gains * mine[tap : tap + end - first]
    return sums


def reference(
    x: Array, weight: Array, seq_start: Integers, has_state: Integers, state: Array
) -> Values:
    """y = silu(sum_j weight_j u_(t - width + 1 + j)) with u = state then x, in float64."""
    columns = _columns(x, state, seq_start, has_state)
    sums = _convolve(x, weight, columns, seq_start)
    kept = state.copy()
    for s, (first, end) in enumerate(spans(seq_start)):
        if end > first:
            kept[s] = columns[s][end - first :]
    return {"y": sums / (1 + np.exp(-sums)), "state": kept}


def bound(
    x: Array, weight: Array, seq_start: Integers, has_state: Integers, state: Array
) -> Values:
    """gamma_width * sum_j |weight_j u_j| through the slope of SiLU, and SiLU's own 8 u |y| and
    `exp_drift`. The state is a copy and exact.
    """
    columns = _columns(x, state, seq_start, has_state)
    sums = _convolve(x, weight, columns, seq_start)
    magnitude = _convolve(x, np.abs(weight), [np.abs(each) for each in columns], seq_start)
    width = len(weight)
    drift = gamma(width) * magnitude + width * SMALLEST_NORMAL
    own = (gamma(8) + exp_drift(sums) / (1 + np.exp(sums))) * np.abs(sums / (1 + np.exp(-sums)))
    flush = (np.abs(sums) + 1) * SMALLEST_NORMAL
    return {"y": SILU_SLOPE * drift + own + flush, "state": np.zeros_like(state)}


def structure(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Any division of the tokens; some sequences begin here."""
    return {
        "seq_start": draw_starts(rng, sizes["n_tokens"], sizes["n_seqs"]),
        "has_state": draw_flags(rng, sizes["n_seqs"]),
    }


def exact(rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """Small non-negative integers whose sums are 0 or at least 30, which SiLU leaves alone."""
    n_channels, width = sizes["n_channels"], sizes["width"]
    weight = rng.integers(0, 8, (width, n_channels)).astype(np.float64)

    def values(*shape: int) -> Array:
        drawn: Array = (rng.integers(30, 127, shape) * rng.integers(0, 2, shape)).astype(np.float64)
        return drawn

    return {
        **structure(rng, sizes),
        "x": values(sizes["n_tokens"], n_channels),
        "weight": weight,
        "state": values(sizes["n_seqs"], width - 1, n_channels),
    }


def second(
    x: Array, weight: Array, seq_start: Integers, has_state: Integers, state: Array
) -> Values:
    """`torch.nn.functional.conv1d` and `silu` in float64, a sequence at a time."""
    import torch

    y, kept = np.zeros_like(x), state.copy()
    kernel = torch.from_numpy(np.ascontiguousarray(weight.T))[:, None, :]
    for s, (first, end) in enumerate(spans(seq_start)):
        if first == end:
            continue
        before = torch.from_numpy(state[s]) * int(has_state[s] != 0)
        mine = torch.cat([before, torch.from_numpy(x[first:end])])
        sums = torch.nn.functional.conv1d(mine.T[None], kernel, groups=x.shape[1])[0].T
        y[first:end] = torch.nn.functional.silu(sums).numpy()
        kept[s] = mine[len(mine) - state.shape[1] :].numpy()
    return {"y": y, "state": kept}


OPERATIONS = [
    Operation(
        name="conv1d_causal",
        doc="Convolves each channel over time, then SiLU; carries the last columns on.\n"
        "y[t, c] = silu(sum_j weight[j, c] * u[t - width + 1 + j, c])\n"
        "u are the columns of the token's sequence: those of state, or zeros where has_state is\n"
        "0, then x. Afterwards state holds the sequence's last width - 1 columns of u.",
        axes=(
            Axis(
                name="n_tokens",
                doc="tokens of all sequences, packed",
                edges=(1, 2, 3, 4, 5, 17, 64),
                long=(512, 513, 600),
            ),
            Axis(
                name="n_seqs",
                doc="sequences",
                least=1,
                edges=(1, 2, 3, 5, 17),
                long=MANY[:2],
            ),
            Axis(
                name="n_channels",
                doc="channels",
                edges=(1, 8, 16, 32, 64, 128),
                long=(1024, *WIDTHS),
            ),
            Axis(name="width", doc="taps", least=1, edges=(2, 3, 4)),
        ),
        inputs=(
            Operand(name="x", dtype="f32", axes=("n_tokens", "n_channels"), doc="columns"),
            Operand(name="weight", dtype="f32", axes=("width", "n_channels"), doc="taps"),
            Operand(
                name="seq_start",
                dtype="i32",
                axes=("n_seqs + 1",),
                doc="first token of each sequence, from 0 up to n_tokens",
            ),
            Operand(
                name="has_state",
                dtype="i32",
                axes=("n_seqs",),
                doc="0 where a sequence begins and state is not read",
            ),
        ),
        outputs=(
            Operand(name="y", dtype="f32", axes=("n_tokens", "n_channels"), doc="result"),
            Operand(
                name="state",
                dtype="f32",
                axes=("n_seqs", "width - 1", "n_channels"),
                doc="each sequence's last columns before SiLU and convolution",
                updated=True,
            ),
        ),
        reference=reference,
        bound=bound,
        exact=exact,
        second=second,
        structure=structure,
        sequences=Sequences(
            tokens="n_tokens", seqs="n_seqs", starts="seq_start", has_state="has_state"
        ),
    )
]
