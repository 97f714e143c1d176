"""Sequences of tokens packed one after another: starts, fresh states, pools, gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from hotfire.ref.formats import Array, Integers

HALF_LIFE_MAX = 4096.0
"""The slowest gate's half-life in tokens: with fast gates a fault of the state cannot be seen."""


def spans(starts: Integers) -> Iterator[tuple[int, int]]:
    """First token and the one past the last, a sequence."""
    return ((int(first), int(end)) for first, end in pairwise(starts))


def draw_starts(rng: np.random.Generator, n_tokens: int, n_seqs: int) -> Integers:
    """[n_seqs + 1] from 0 to n_tokens: any division of the tokens, empty sequences among them."""
    cuts = np.sort(rng.integers(0, n_tokens + 1, n_seqs - 1))
    return np.concatenate([[0], cuts, [n_tokens]]).astype(np.int64)


def draw_flags(rng: np.random.Generator, n_seqs: int) -> Integers:
    """[n_seqs] of 0 and 1: which sequences come with a state."""
    return rng.integers(0, 2, n_seqs)


def draw_ranges(
    rng: np.random.Generator, n_rows: int, q_len: Integers, landmarks: Sequence[int] = ()
) -> tuple[Integers, Integers]:
    """Where each sequence's rows of a pool begin, and how many they are, at least its q_len.

    Sequences lie in random order with gaps between them.

    Args:
        rng: to draw from.
        n_rows: rows of the pool; at least the sum of q_len.
        q_len: [n_seqs] tokens of this call.
        landmarks: lengths, ascending: in half of the draws, and in all where every one fits, one
            sequence with tokens has one of the longest three that fit.

    Returns:
        [n_seqs] begin and [n_seqs] length.
    """
    n_seqs = len(q_len)
    spare = n_rows - int(q_len.sum())
    chosen = more = 0
    if landmarks and (spare >= landmarks[-1] or rng.random() < 0.5):
        chosen, more = _landmark(rng, spare, q_len, landmarks)
    spare -= more
    shares = np.diff(np.sort(rng.integers(0, spare + 1, 2 * n_seqs)), prepend=0)
    history, gaps = shares[:n_seqs], shares[n_seqs:]
    if more:
        history[chosen] = more
    length = q_len + history
    order = rng.permutation(n_seqs)
    begin = np.zeros(n_seqs, dtype=np.int64)
    at = 0
    for seq in order:
        begin[seq] = at + gaps[seq]
        at = int(begin[seq] + length[seq])
    return begin, length.astype(np.int64)


def _landmark(
    rng: np.random.Generator, spare: int, q_len: Integers, landmarks: Sequence[int]
) -> tuple[int, int]:
    """A sequence with tokens, and the rows that it has before them; no rows if nothing fits."""
    able = np.flatnonzero(q_len)
    if not able.size:
        return 0, 0
    chosen = int(rng.choice(able))
    fitting = [each for each in landmarks if 0 <= each - q_len[chosen] <= spare][-3:]
    return chosen, int(rng.choice(fitting) - q_len[chosen]) if fitting else 0


def draw_log_gates(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Logarithms of gates whose half-lives are log-uniform from 1 to 4096 tokens."""
    half_lives: Array = np.exp(rng.uniform(0, np.log(HALF_LIFE_MAX), shape))
    gates: Array = -np.log(2) / half_lives
    return gates
