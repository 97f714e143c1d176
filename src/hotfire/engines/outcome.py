"""What one way of leading an engine came to: comparisons, the first divergence, exemptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.compare import Comparison
from hotfire.engines.walked import TRANSITIONS

WALK = -1
"""Among ways to cut: a walk through all states instead of chunks of a size."""

EMBEDDINGS, HEAD = "the embeddings", "none, so the head"
"""Where hidden states part, if in no layer."""

NEEDED = {
    0: ("prefill to decode", "decode to decode"),
    1: ("decode to decode",),
    WALK: TRANSITIONS,
}
"""What a way must have walked for a pass to mean something; other sizes need `_CHUNKED`."""
_CHUNKED = ("chunk to chunk", "prefill to decode")


def name_of(way: int) -> str:
    """A way of cutting, in words."""
    return {0: "whole prompts", WALK: "walk"}.get(way, f"ubatch {way}")


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The first position at which the rule was broken.

    Args:
        prompt, pos: where.
        after: the transition that led to the call that computed it.
        place: that call, in words.
        worst, bound: largest difference of a logit, and what was allowed.
        drift: RMS difference of the row, in units of what was allowed.
        gap: distance of the reference's two largest logits.
        flipped: whether the argmax differs.
        layer: where the hidden states part, in words; "" if the engines cannot tell.
    """

    prompt: int
    pos: int
    after: str
    place: str
    worst: float
    bound: float
    drift: float
    gap: float
    flipped: bool
    layer: str = ""


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """A position that differs legally.

    Args:
        prompt, pos: where.
        after: the transition that led to the call that computed it.
        of_router: whether a router may have chosen another expert; else another token won.
        margin: the router's distance from a tie, over its logits' RMS; or the distance of the two
            tokens' logits in the reference.
        allowed: up to which margin it is legal.
        n_unjudged: positions after it that carry the other choice on.
    """

    prompt: int
    pos: int
    after: str
    of_router: bool
    margin: float
    allowed: float
    n_unjudged: int = 0


@dataclass
class Outcome:
    """All that one way of cutting the tracks came to.

    Args:
        way: chunk size, 0 for whole prompts, or `WALK`.
        bound: B, the median over all positions.
        comparisons: one a track.
        perplexities: of the engine, one a track that is long enough.
        divergence: the first, if any.
        exemptions: all.
        misnamed: the first row whose argmax is not that of its own logits, in words.
        transitions: as walked.
    """

    way: int
    bound: float
    comparisons: list[Comparison] = field(default_factory=list)
    perplexities: list[float] = field(default_factory=list)
    divergence: Divergence | None = None
    exemptions: list[Exemption] = field(default_factory=list)
    misnamed: str = ""
    transitions: dict[str, int] = field(default_factory=dict)

    def count(self, pick: Callable[[Comparison], NDArray[np.bool_]]) -> int:
        """How many positions a mask of the comparison marks."""
        return int(sum(pick(each).sum() for each in self.comparisons))

    @property
    def name(self) -> str:
        """The way, in words."""
        return name_of(self.way)

    @property
    def n_positions(self) -> int:
        """Rows compared."""
        return sum(len(each.worst) for each in self.comparisons)

    @property
    def missing(self) -> list[str]:
        """Transitions that it is there for and did not walk."""
        return [name for name in NEEDED.get(self.way, _CHUNKED) if not self.transitions.get(name)]
