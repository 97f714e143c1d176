"""What the reference makes of prompts: the tokens along which another engine is led."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotfire.engines.compare import Floats, rms
from hotfire.engines.protocol import Batch, Engine, Rows, Span, Status
from hotfire.errors import InputError

EDGES = (1, 2, 3, 4, 5, 63, 64, 65)
"""Prompt lengths at which some engine changes its path, tried before the drawn ones."""


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Which prompts are run.

    Args:
        n_prompts: how many.
        length_max: longest prompt in tokens; the first prompt has it, then come the edges, the
            rest is log-uniform.
        n_generated: tokens that the reference then picks.
        seed: of lengths and tokens.
    """

    n_prompts: int = 8
    length_max: int = 600
    n_generated: int = 16
    seed: int = 0

    def draw(self, n_vocab: int) -> list[list[int]]:
        """The prompts, random ids."""
        rng = np.random.default_rng([self.seed, 0x50524F4D])
        lengths = [self.length_max, *(edge for edge in EDGES if edge < self.length_max)]
        lengths = lengths[: self.n_prompts]
        drawn = np.exp(rng.uniform(0, np.log(self.length_max + 1), self.n_prompts - len(lengths)))
        lengths += [int(length) for length in drawn]
        return [rng.integers(0, n_vocab, length).tolist() for length in lengths]


@dataclass(frozen=True)
class Track:
    """A prompt and what the reference made of it.

    Args:
        n_prompt: how many of the tokens are the prompt.
        tokens: prompt and picked tokens.
        logits: [n_tokens, n_vocab] the reference's.
        router_margin: [n_tokens] the reference's, or None.
        moved: [n_tokens] how far the largest logit difference goes, relative to the row's RMS,
            when every weight is perturbed; NaN if the reference cannot tell.
    """

    n_prompt: int
    tokens: list[int]
    logits: Floats
    router_margin: Floats | None
    moved: Floats

    @property
    def calls(self) -> list[int]:
        """How many tokens the reference was given at a time."""
        return [self.n_prompt, *[1] * (len(self.tokens) - self.n_prompt)]


def decode(engine: Engine, spans: Sequence[Span] | Batch, *, hidden: bool = False) -> Rows:
    """A decode that must succeed.

    Raises:
        InputError: if a sequence lacks room, or the batch is too long.
    """
    batch = spans if isinstance(spans, Batch) else Batch.of(spans, hidden=hidden)
    most = engine.description.n_batch
    if len(batch) > most:
        raise InputError(
            f"{engine.description.name} takes at most {most} tokens a call, not {len(batch)}; give "
            "it another n_batch, or ask for shorter prompts or smaller pieces"
        )
    rows = engine.decode(batch)
    if rows.status is not Status.OK:
        longest = int(batch.pos.max()) + 1
        raise InputError(
            f"{engine.description.name} has no room for {longest} tokens "
            f"(n_ctx={engine.description.n_ctx}); ask for shorter prompts"
        )
    return rows


def rows_of(rows: Rows) -> Floats:
    """The logits of a decode that asked for them, float64."""
    assert rows.logits is not None
    return rows.logits.astype(np.float64)


def reference_track(
    engine: Engine, prompt: Sequence[int], n_generated: int, perturbed: Sequence[Engine] = ()
) -> Track:
    """Runs the reference: the prompt at once, then its own choices one by one.

    Args:
        engine: the reference.
        prompt: ids.
        n_generated: how many it picks.
        perturbed: the same model with perturbed weights, see `Track.moved`.
    """
    tokens, logits, margins = list(prompt), list[Floats](), list[Floats]()
    engine.seq_remove(0)
    at = 0
    while at < len(tokens):
        rows = decode(engine, [Span(0, at, tokens[at:], "all")])
        at = len(tokens)
        logits.append(rows_of(rows))
        if rows.router_margin is not None:
            margins.append(rows.router_margin)
        if at < len(prompt) + n_generated:
            tokens.append(int(rows.argmax[-1]))
    engine.seq_remove(0)
    margin = np.concatenate(margins) if margins else None
    whole = np.concatenate(logits)
    return Track(len(prompt), tokens, whole, margin, _moved(perturbed, tokens, whole))


def _moved(perturbed: Sequence[Engine], tokens: list[int], logits: Floats) -> Floats:
    """The largest movement over some perturbed models, led along the same tokens at once."""
    found = [np.full(len(tokens), np.nan)]
    for engine in perturbed:
        engine.seq_remove(0)
        got = rows_of(decode(engine, [Span(0, 0, tokens, "all")]))
        engine.seq_remove(0)
        found.append(np.abs(got - logits).max(axis=1) / rms(logits))
    worst: Floats = np.fmax.reduce(found)
    return worst
