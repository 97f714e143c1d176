"""`exact`: two engines along the same tokens, logit by logit, and the verdict on them.

The reference is given prompts and picks its own next tokens; the engine under test is led along
the same tokens, cut in several ways. A difference beyond the bound of `compare` is named after the
transition that led to it, and a way that did not walk the transitions which it is there for is
`mistrusted`, whatever its figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.compare import (
    COARSE,
    DRIFT,
    EXEMPT_MAX,
    MEANINGLESS,
    N_PERTURBED,
    TAIL_AND_CHAIN,
    Comparison,
    compare,
    parting_layer,
    perplexity,
    relative_bound,
    router_ties,
)
from hotfire.engines.leading import Led, Walker, lead, stream
from hotfire.engines.numpy_ import NumpyEngine
from hotfire.engines.protocol import Description, Engine
from hotfire.engines.tracks import Prompts, Track, reference_track
from hotfire.engines.walked import START, TRANSITIONS, Walked
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity, Status, Verdict, combine, judge

TINY = float(np.finfo(np.float64).tiny)
WALK = -1
"""Among ways to cut: a walk through all states instead of chunks of a size."""

BEGINNINGS = (START, "evict to reuse")
"""Transitions to position 0: a fault that shows later in such a call is not theirs."""

UNJUDGED_MAX = 0.25
"""Share of positions behind a router's tie beyond which too little was judged."""

NEEDED = {
    0: ("prefill to decode", "decode to decode"),
    1: ("decode to decode",),
    WALK: TRANSITIONS,
}
"""What a way must have walked for a pass to mean something; other sizes need `_CHUNKED`."""
_CHUNKED = ("chunk to chunk", "prefill to decode")


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


@dataclass
class Outcome:
    """All that one way of cutting the tracks came to.

    Args:
        way: chunk size, 0 for whole prompts, or `WALK`.
        bound: B, the median over all positions.
        comparisons: one a track.
        perplexities: of the engine, one a track that is long enough.
        divergence: the first, if any.
        misnamed: the first row whose argmax is not that of its own logits, in words.
        transitions: as walked.
    """

    way: int
    bound: float
    comparisons: list[Comparison] = field(default_factory=list)
    perplexities: list[float] = field(default_factory=list)
    divergence: Divergence | None = None
    misnamed: str = ""
    transitions: dict[str, int] = field(default_factory=dict)

    def count(self, pick: Callable[[Comparison], NDArray[np.bool_]]) -> int:
        """How many positions a mask of the comparison marks."""
        return int(sum(pick(each).sum() for each in self.comparisons))

    @property
    def n_positions(self) -> int:
        """Rows compared."""
        return sum(len(each.worst) for each in self.comparisons)

    @property
    def missing(self) -> list[str]:
        """Transitions that it is there for and did not walk."""
        return [name for name in NEEDED.get(self.way, _CHUNKED) if not self.transitions.get(name)]


def check(
    reference: Engine,
    engine: Engine,
    prompts: Prompts,
    ways: Sequence[int],
    *,
    conditioning: Engine | None = None,
    reproduce: str = "",
    step: Callable[[str], object] = str,
) -> Verdict:
    """Compares an engine with a reference.

    Args:
        reference, engine: of the same model.
        prompts: along what.
        ways: chunk sizes, 0 for whole prompts, `WALK` for a walk; at least one.
        conditioning: the same model in float64, which measures how far rounding moves each row;
            the reference itself if it is that, and nothing if it is not and none is given.
        reproduce: the command line, for findings.
        step: called with a word before each part of the work.

    Raises:
        InputError: if what conditions is not float64.
    """
    one, other = reference.description, engine.description
    unit = sum(each.unit_sum + each.unit_stored for each in (one, other))
    twins = _twins(reference, conditioning, unit)
    tracks = []
    for number, prompt in enumerate(prompts.draw(reference.description.n_vocab)):
        step(f"reference, prompt {number}")
        tracks.append(reference_track(reference, prompt, prompts.n_generated, twins))
    parts, walked = [], Walked(engine)
    for way in ways:
        step(_name(way))
        outcome = _run(reference, walked, tracks, way, prompts.seed)
        parts.append(_verdict(outcome, tracks, reproduce))
    return combine(
        f"exact {other.name}",
        parts,
        scope={
            "reference": {"target": one.name, **one.scope},
            "engine": {"target": other.name, **other.scope},
            "prompts": f"{prompts.n_prompts} of 1 to {prompts.length_max} tokens, "
            f"{prompts.n_generated} generated",
            "seed": prompts.seed,
        },
        reproduce=reproduce,
        measurements={
            "bound_relative": relative_bound(one, other),
            "bound_median": float(
                np.median(np.concatenate([bounds(t, one, other) for t in tracks]))
            ),
        },
        transitions={
            name: sum(part.transitions.get(name, 0) for part in parts)
            for name in dict.fromkeys(name for part in parts for name in part.transitions)
        },
    )


def _twins(reference: Engine, conditioning: Engine | None, unit: float) -> list[NumpyEngine]:
    """The float64 model with weights off by `unit`, if there is one."""
    if conditioning is not None and not isinstance(conditioning, NumpyEngine):
        raise InputError(f"{conditioning.description.name} cannot be perturbed; expected numpy:")
    exact = conditioning or reference
    if not isinstance(exact, NumpyEngine):
        return []
    return [exact.perturbed(unit, seed) for seed in range(N_PERTURBED)]


def bounds(track: Track, one: Description, other: Description) -> NDArray[np.float64]:
    """[n_tokens] B of each row of a track, for two engines."""
    return np.fmax(relative_bound(one, other), TAIL_AND_CHAIN * track.moved)


def _run(
    reference: Engine, walked: Walked, tracks: Sequence[Track], way: int, seed: int
) -> Outcome:
    pair = (reference.description, walked.description)
    bound = float(np.median(np.concatenate([bounds(track, *pair) for track in tracks])))
    outcome, before = Outcome(way, bound), walked.transitions
    walker = Walker(walked, np.random.default_rng([seed, 0x57414C4B])) if way == WALK else None
    for number, track in enumerate(tracks):
        led = walker.walk(track) if walker else lead(walked, track, way)
        got, pos = np.concatenate(led.logits), np.array(led.pos)
        b = bounds(track, *pair)
        margin = led.router_margin if track.router_margin is None else track.router_margin[pos]
        compared = compare(track.logits[pos], got, b[pos], router_ties(margin, b[pos]))
        outcome.comparisons.append(compared)
        if way != WALK and len(track.tokens) > 1:
            outcome.perplexities.append(perplexity(got, np.array(track.tokens)))
        outcome.misnamed = outcome.misnamed or led.misnamed(number)
        if outcome.divergence is None and compared.wrong.any():
            found = _divergence(number, int(compared.wrong.argmax()), led, compared)
            outcome.divergence = replace(found, layer=_layer(reference, walked, track, led, found))
    after = walked.transitions
    outcome.transitions = {name: after[name] - before.get(name, 0) for name in after}
    return outcome


def _divergence(number: int, row: int, led: Led, compared: Comparison) -> Divergence:
    return Divergence(
        prompt=number,
        pos=led.pos[row],
        after=led.after[row],
        place=_place(led, led.pos[row]),
        worst=float(compared.worst[row] * compared.bound[row]),
        bound=float(compared.bound[row]),
        drift=float(compared.drift[row]),
        gap=float(compared.gap[row]),
        flipped=bool(compared.flipped[row]),
    )


def _place(led: Led, pos: int) -> str:
    """The call that computed a position, in words."""
    begin = 0
    for length in led.calls:
        if pos < begin + length:
            return f"token {pos - begin} of a call of {length}"
        begin += length
    return "on a walk"


def _layer(reference: Engine, engine: Engine, track: Track, led: Led, found: Divergence) -> str:
    """Where the residual streams part, if both engines can tell."""
    if not led.calls:
        return ""
    want = stream(reference, track, track.calls, found.pos)
    got = stream(engine, track, led.calls, found.pos)
    if want is None or got is None or want.shape != got.shape:
        return ""
    pair = (reference.description, engine.description)
    enlarged = float(bounds(track, *pair)[found.pos] / max(relative_bound(*pair), TINY))
    layer = parting_layer(want, got, *pair, enlarged)
    if layer is None:
        return "none, so the head"
    kinds = reference.description.layer_kinds
    return f"{layer - 1} ({kinds[layer - 1]})" if layer else "the embeddings"


def _verdict(outcome: Outcome, tracks: Sequence[Track], reproduce: str) -> Verdict:
    findings = tuple(_findings(outcome, reproduce))
    status, reason = judge(findings), ""
    unjudged = outcome.count(lambda each: each.unjudged) / outcome.n_positions
    if status is Status.PASSED and unjudged > UNJUDGED_MAX:
        status = Status.UNSETTLED
        reason = f"{unjudged:.0%} of positions come after a router's tie; take more prompts"
    elif status is Status.PASSED and outcome.missing:
        status = Status.MISTRUSTED
        reason = f"never walked: {', '.join(outcome.missing)}; it says nothing about those"
    elif status is Status.PASSED and DRIFT * outcome.bound > MEANINGLESS:
        status = Status.MISTRUSTED
        reason = f"rows may drift by {DRIFT * outcome.bound:.2g} of their RMS; see kl_max instead"
    return Verdict(
        name=_name(outcome.way),
        status=status,
        findings=findings,
        measurements=_measurements(outcome, tracks),
        transitions=outcome.transitions,
        reason=reason,
        reproduce=reproduce,
    )


def _name(way: int) -> str:
    return {0: "whole prompts", WALK: "walk"}.get(way, f"ubatch {way}")


def _measurements(outcome: Outcome, tracks: Sequence[Track]) -> dict[str, Any]:
    kl = np.concatenate([each.kl for each in outcome.comparisons])
    worst = np.concatenate([each.worst for each in outcome.comparisons])
    figures: dict[str, Any] = {
        "n_positions": len(worst),
        "worst_of_bound": float(worst.max()),
        "drift_of_bound": float(max(each.drift.max() for each in outcome.comparisons)),
        "n_wrong": outcome.count(lambda each: each.wrong),
        "n_flips": outcome.count(lambda each: each.flipped),
        "n_exempt": outcome.count(lambda each: each.exempt),
        "n_unjudged": outcome.count(lambda each: each.unjudged),
        "kl_mean": float(kl.mean()),
        "kl_max": float(kl.max()),
    }
    if outcome.perplexities:
        long = [track for track in tracks if len(track.tokens) > 1]
        want = [perplexity(track.logits, np.array(track.tokens)) for track in long]
        figures["perplexity"] = _geometric_mean(outcome.perplexities, long)
        figures["perplexity_reference"] = _geometric_mean(want, long)
    return figures


def _geometric_mean(perplexities: Sequence[float], tracks: Sequence[Track]) -> float:
    """The perplexity of all tracks together, each weighted by its tokens."""
    weights = [len(track.tokens) - 1 for track in tracks]
    return float(np.exp(np.average(np.log(perplexities), weights=weights)))


def _findings(outcome: Outcome, reproduce: str) -> list[Finding]:
    found: list[Finding] = []
    n_exempt = outcome.count(lambda each: each.exempt)
    if outcome.divergence is not None:
        found.append(_difference(outcome, outcome.divergence, reproduce))
    if outcome.misnamed:
        found.append(
            Finding(
                rule="ARGMAX_OF_ITS_ROW",
                severity=Severity.SILENT_WRONG,
                message=outcome.misnamed,
                remedy="look at which row of logits the argmax is taken of, and where it is put",
                reproduce=reproduce,
                subject={"way": _name(outcome.way)},
            )
        )
    if outcome.bound < COARSE and n_exempt > max(1, EXEMPT_MAX * outcome.n_positions):
        found.append(
            Finding(
                rule="TOO_MANY_EXEMPTIONS",
                severity=Severity.SILENT_WRONG,
                message=f"{n_exempt} of {outcome.n_positions} positions are near ties that went "
                f"the other way; at most {EXEMPT_MAX:.1%} may, or one",
                remedy="take more prompts; if it stays, the engine is less exact than its "
                "arithmetic allows",
                reproduce=reproduce,
            )
        )
    return found


def _difference(outcome: Outcome, at: Divergence, reproduce: str) -> Finding:
    rule = re.sub(r"\W+", "_", at.after.partition(",")[0]).upper()
    if at.pos and at.after.partition(",")[0] in BEGINNINGS:
        rule = "INSIDE_CALL"
    elif ", beside others" in at.after:
        rule += "_BESIDE_OTHERS"
    flip = "another token wins" if at.flipped else "the same token wins"
    where = f"; hidden states part at layer {at.layer}" if at.layer else ""
    return Finding(
        rule=rule,
        severity=Severity.SILENT_WRONG,
        message=f"prompt {at.prompt}, position {at.pos}, {at.place}, after {at.after}: a logit is "
        f"off by {at.worst:.3g}, allowed {at.bound:.3g}, the row by {at.drift:.3g} of what it may; "
        f"{flip}, the reference's margin is "
        f"{at.gap:.3g}{where}; {outcome.count(lambda each: each.wrong)} positions are wrong",
        remedy=_remedy(at),
        reproduce=reproduce,
        subject={"way": _name(outcome.way), "layer": at.layer},
    )


def _remedy(at: Divergence) -> str:
    """Where to look first."""
    looks = {
        "chunk to chunk": "what a chunk takes over from the one before it: convolution, S, keys",
        "prefill to decode": "what a prefill leaves: the last gate, the convolution's history",
        "decode to decode": "what one token leaves to the next",
        "decode to prefill": "what a chunk takes over after single tokens",
        "rollback to next": "what going back restores: S and the convolution, not only keys",
        "restore to next": "what is saved",
        "rollback of a copy to next": "whether a copy has snapshots of its own, and which",
        "copy to next": "what is copied",
        "evict to reuse": "what a new sequence finds in a used slot",
    }
    transition, _, others = at.after.partition(",")
    if at.pos and transition in BEGINNINGS:
        transition = ""
    if others:
        return "whose state each row of a batch reads, and then: " + looks.get(transition, "")
    if transition in looks:
        return f"look at {looks[transition]}"
    power = at.pos & -at.pos
    hint = f"; {at.pos} is a multiple of {power}, if the engine cuts there" if power > 3 else ""
    return f"look at how a call computes its own tokens: positions, mask, chunks{hint}"
