"""The verdict on an outcome: its status, its figures, its findings, where to look first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hotfire.engines.compare import COARSE, DRIFT, EXEMPT_MAX, MEANINGLESS, perplexity
from hotfire.engines.outcome import EMBEDDINGS, HEAD, Divergence, Exemption, Outcome
from hotfire.engines.tracks import Track
from hotfire.engines.walked import START
from hotfire.verdict import Finding, Severity, Status, Verdict, judge

BEGINNINGS = (START, "evict to reuse")
"""Transitions to position 0: a fault that shows later in such a call is not theirs."""

UNJUDGED_MAX = 0.25
"""Share of positions behind a router's tie beyond which too little was judged."""

MAX_LISTED = 20
"""Exemptions of a way that are told one by one; all are counted."""


def verdict_of(outcome: Outcome, tracks: Sequence[Track], reproduce: str) -> Verdict:
    """The verdict.

    Args:
        outcome: of one way.
        tracks: the reference's, along which it was led.
        reproduce: the command line, for findings.
    """
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
        name=outcome.name,
        status=status,
        findings=findings,
        measurements=_measurements(outcome, tracks),
        transitions=outcome.transitions,
        reason=reason,
        reproduce=reproduce,
    )


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


def _findings(outcome: Outcome, reproduce: str) -> Iterator[Finding]:
    n_exempt = outcome.count(lambda each: each.exempt)
    if outcome.divergence is not None:
        yield _difference(outcome, outcome.divergence, reproduce)
    if outcome.misnamed:
        yield Finding(
            rule="ARGMAX_OF_ITS_ROW",
            severity=Severity.SILENT_WRONG,
            message=outcome.misnamed,
            remedy="look at which row of logits the argmax is taken of, and where it is put",
            reproduce=reproduce,
            subject={"way": outcome.name},
        )
    if outcome.bound >= COARSE:
        return  # near ties are common, and only counted
    if n_exempt > max(1, EXEMPT_MAX * outcome.n_positions):
        yield Finding(
            rule="TOO_MANY_EXEMPTIONS",
            severity=Severity.SILENT_WRONG,
            message=f"{n_exempt} of {outcome.n_positions} positions are near ties that went "
            f"the other way; at most {EXEMPT_MAX:.1%} may, or one",
            remedy="take more prompts; if it stays, the engine is less exact than its "
            "arithmetic allows",
            reproduce=reproduce,
        )
    yield from (_exemption(outcome, each) for each in outcome.exemptions[:MAX_LISTED])


def _exemption(outcome: Outcome, at: Exemption) -> Finding:
    what = "another token wins; the two logits of the reference are"
    if at.of_router:
        what = "another expert may have been chosen; the router's logits are"
    of_rms = " of their RMS" if at.of_router else ""
    after = f"; the {at.n_unjudged} positions after it are not judged" if at.of_router else ""
    return Finding(
        rule="ROUTER_TIE" if at.of_router else "NEAR_TIE",
        severity=Severity.INFO,
        message=f"prompt {at.prompt}, position {at.pos}, after {at.after}: exempt, {what} "
        f"{at.margin:.3g}{of_rms} apart, up to {at.allowed:.3g} may be{after}",
        subject={"way": outcome.name},
    )


def _difference(outcome: Outcome, at: Divergence, reproduce: str) -> Finding:
    rule = re.sub(r"\W+", "_", at.after.partition(",")[0]).upper()
    if at.pos and at.after.partition(",")[0] in BEGINNINGS:
        rule = "INSIDE_CALL"
    elif ", beside others" in at.after:
        rule += "_BESIDE_OTHERS"
    flip = "another token wins" if at.flipped else "the same token wins"
    where = {
        "": "",
        EMBEDDINGS: "; the embeddings differ already",
        HEAD: "; the hidden states agree, so it is the head",
    }.get(at.layer, f"; hidden states part at layer {at.layer}")
    return Finding(
        rule=rule,
        severity=Severity.SILENT_WRONG,
        message=f"prompt {at.prompt}, position {at.pos}, {at.place}, after {at.after}: a logit is "
        f"off by {at.worst:.3g}, allowed {at.bound:.3g}, the row by {at.drift:.3g} of what it may; "
        f"{flip}, the reference's margin is "
        f"{at.gap:.3g}{where}; {outcome.count(lambda each: each.wrong)} positions are wrong",
        remedy=_remedy(at),
        reproduce=reproduce,
        subject={"way": outcome.name, "layer": at.layer},
    )


def _remedy(at: Divergence) -> str:
    """Where to look first."""
    if at.layer == EMBEDDINGS:
        return "look whether both have the same weights, and then at how tokens are looked up"
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
