"""`exact`: two engines along the same tokens, logit by logit, and the verdict on them.

The reference is given prompts and picks its own next tokens; the engine under test is led along
the same tokens, cut in several ways. A difference beyond the bound of `compare` is named after the
transition that led to it, and a way that did not walk the transitions which it is there for is
`mistrusted`, whatever its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.compare import (
    N_PERTURBED,
    TAIL_AND_CHAIN,
    Comparison,
    Floats,
    compare,
    parting_layer,
    perplexity,
    relative_bound,
    router_ties,
)
from hotfire.engines.judging import verdict_of
from hotfire.engines.leading import Led, Walker, lead, stream
from hotfire.engines.numpy_ import NumpyEngine
from hotfire.engines.outcome import (
    EMBEDDINGS,
    HEAD,
    WALK,
    Divergence,
    Exemption,
    Outcome,
    name_of,
)
from hotfire.engines.protocol import Description, Engine
from hotfire.engines.sameness import refuse_others
from hotfire.engines.tracks import Prompts, Track, reference_track
from hotfire.engines.walked import Walked
from hotfire.errors import InputError
from hotfire.verdict import Verdict, combine

TINY = float(np.finfo(np.float64).tiny)


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
    """Compares an engine with a reference. If it is interrupted, the ways that were completed are
    kept, and the scope says so.

    Args:
        reference, engine: of the same model.
        prompts: along what.
        ways: chunk sizes, 0 for whole prompts, `WALK` for a walk; at least one.
        conditioning: the same model in float64, which measures how far rounding moves each row;
            the reference itself if it is that, and nothing if it is not and none is given.
        reproduce: the command line, for findings.
        step: called with a word before each part of the work.

    Raises:
        InputError: if what conditions is not float64, or the models differ.
        KeyboardInterrupt: before a way was completed.
    """
    one, other = reference.description, engine.description
    for each in (other, conditioning.description) if conditioning else (other,):
        refuse_others(one, each)
    twins = _twins(reference, other, conditioning)
    tracks = list[Track]()
    for number, prompt in enumerate(prompts.draw(one.n_vocab)):
        step(f"reference, prompt {number}")
        tracks.append(reference_track(reference, prompt, prompts.n_generated, twins))
    parts, walked = list[Verdict](), Walked(engine)
    interrupted = False
    try:
        for way in ways:
            step(name_of(way))
            outcome = _run(reference, walked, tracks, way, prompts.seed)
            parts.append(verdict_of(outcome, tracks, reproduce))
    except KeyboardInterrupt:
        if not parts:
            raise
        interrupted = True
    return combine(
        f"exact {other.name}",
        parts,
        scope=_scope(one, other, prompts) | ({"interrupted": True} if interrupted else {}),
        reason="interrupted; the ways above were completed" if interrupted else "",
        reproduce=reproduce,
        measurements={
            "bound_relative": relative_bound(one, other),
            "bound_median": _median_bound(tracks, one, other),
        },
        transitions={
            name: sum(part.transitions.get(name, 0) for part in parts)
            for name in dict.fromkeys(name for part in parts for name in part.transitions)
        },
    )


def _scope(one: Description, other: Description, prompts: Prompts) -> dict[str, Any]:
    return {
        "reference": {"target": one.name, **one.scope},
        "engine": {"target": other.name, **other.scope},
        "prompts": f"{prompts.n_prompts} of 1 to {prompts.length_max} tokens, "
        f"{prompts.n_generated} generated",
        "seed": prompts.seed,
    }


def _twins(reference: Engine, other: Description, conditioning: Engine | None) -> list[NumpyEngine]:
    """The float64 model with weights off by both engines' roundoff, if there is one."""
    if conditioning is not None and not isinstance(conditioning, NumpyEngine):
        raise InputError(f"{conditioning.description.name} cannot be perturbed; expected numpy:")
    unit = sum(each.unit_sum + each.unit_stored for each in (reference.description, other))
    exact = conditioning or reference
    if not isinstance(exact, NumpyEngine):
        return []
    return [exact.perturbed(unit, seed) for seed in range(N_PERTURBED)]


def bounds(track: Track, one: Description, other: Description) -> NDArray[np.float64]:
    """[n_tokens] B of each row of a track, for two engines."""
    return np.fmax(relative_bound(one, other), TAIL_AND_CHAIN * track.moved)


def _median_bound(tracks: Sequence[Track], one: Description, other: Description) -> float:
    return float(np.median(np.concatenate([bounds(track, one, other) for track in tracks])))


def _run(
    reference: Engine, walked: Walked, tracks: Sequence[Track], way: int, seed: int
) -> Outcome:
    pair = (reference.description, walked.description)
    outcome, before = Outcome(way, _median_bound(tracks, *pair)), walked.transitions
    walker = Walker(walked, np.random.default_rng([seed, 0x57414C4B])) if way == WALK else None
    for number, track in enumerate(tracks):
        again = walker.twin() if walker else None
        led = walker.walk(track) if walker else lead(walked, track, way)
        got, pos = np.concatenate(led.logits), np.array(led.pos)
        b = bounds(track, *pair)[pos]
        want_margin = None if track.router_margin is None else track.router_margin[pos]
        compared = compare(
            track.logits[pos], got, b, router_ties(want_margin, led.router_margin, b)
        )
        outcome.comparisons.append(compared)
        margin = led.router_margin if want_margin is None else want_margin
        outcome.exemptions += _exemptions(number, led, compared, margin, 2 * b)
        if way != WALK and len(track.tokens) > 1:
            outcome.perplexities.append(perplexity(got, np.array(track.tokens)))
        outcome.misnamed = outcome.misnamed or led.misnamed(number)
        if outcome.divergence is None and compared.wrong.any():
            row = int(compared.wrong.argmax())
            found = _divergence(number, row, led, compared)
            here = _stream(walked.engine, track, led, compared, row, again)
            layer = _layer(reference, walked, track, found.pos, here)
            outcome.divergence = replace(found, layer=layer)
    after = walked.transitions
    outcome.transitions = {name: after[name] - before.get(name, 0) for name in after}
    return outcome


def _exemptions(
    number: int, led: Led, compared: Comparison, margin: Floats | None, allowed: Floats
) -> Iterator[Exemption]:
    """Of one track, in order of time.

    Args:
        number: of the track.
        led: the engine along it.
        compared: the two.
        margin: [n] of routers, the reference's if it tells.
        allowed: [n] up to which it explains a difference.
    """
    for row in np.flatnonzero(compared.exempt).tolist():
        apart, most = compared.margin[row] * compared.bound[row], 2 * compared.bound[row]
        of_router = margin is not None and row == compared.end
        if margin is not None and of_router:
            apart, most = margin[row], allowed[row]
        yield Exemption(
            prompt=number,
            pos=led.pos[row],
            after=led.after[row],
            of_router=of_router,
            margin=float(apart),
            allowed=float(most),
            n_unjudged=int(compared.unjudged.sum()),
        )


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


def _stream(
    engine: Engine, track: Track, led: Led, compared: Comparison, row: int, again: Walker | None
) -> Floats | None:
    """The engine's residual stream at a wrong row, [n_layers + 1, n_embd], by leading it once more.

    None if it cannot tell, or if on the second walk the row is right.
    """
    pos = led.pos[row]
    if again is None:
        return stream(engine, track, led.calls, pos)
    once_more = again.walk(track, stream_of=row)
    off = np.abs(np.concatenate(once_more.logits)[row] - track.logits[pos]).max()
    return None if off <= compared.bound[row] else once_more.stream


def _layer(reference: Engine, engine: Engine, track: Track, pos: int, got: Floats | None) -> str:
    """Where the residual streams part, if both engines can tell."""
    want = None if got is None else stream(reference, track, track.calls, pos)
    if want is None or got is None or want.shape != got.shape:
        return ""
    pair = (reference.description, engine.description)
    enlarged = float(bounds(track, *pair)[pos] / max(relative_bound(*pair), TINY))
    layer = parting_layer(want, got, *pair, enlarged)
    if layer is None:
        return HEAD
    kinds = reference.description.layer_kinds
    return f"{layer - 1} ({kinds[layer - 1]})" if layer else EMBEDDINGS
