"""When two engines' logits agree, and what a difference may be.

The bound on one logit, against a reference row r:

    |got - want| <= B RMS(r),   B = 12 max(A, M),   A = (2 n_layers + 1) (u_sum sqrt(K) + u_stored)

Where it comes from. A dot product of K terms of like size, summed in any order, is off by about
u_sum sqrt(K) of its result's RMS (rounding errors of random sign, Higham & Mary 2019); storing it
adds u_stored. Each of the 2 n_layers sublayers and the head adds its own share to the residual
stream, and later layers hand earlier errors on; taken as fully correlated they add up to
2 n_layers + 1: that is A. A sublayer makes four such roundings one after another, sqrt(4) = 2, and
the largest of some 10^7 normal errors is 6 standard deviations: 12.

A supposes that layers hand errors on and do not enlarge them. But a Gated DeltaNet normalises
o = q^T S, which is small where the sum cancels, above all at the first tokens, when S has hardly
any rank; two such layers in a row have been seen to enlarge errors 200-fold. So the float64
reference measures it: M is how far a row's largest logit moves when every weight of the reference
is off by a relative normal error of u_sum + u_stored, the worst of `N_PERTURBED` draws. Beside a
reference that is not float64 another target can measure it. With none that can be perturbed, M is
0, and a bound exceeded at one of the first tokens of a deep model may be its conditioning.

A whole row has no tail: its RMS difference may be at most a quarter of the bound, that is 1.5
standard deviations of its own scale. In bf16 this says more than the largest difference does.

u and K are those of both engines together. tests/engines/test_exact.py measures the ratio of the
worst error to it.

Another argmax is legal only if the reference's own logits for the two ids differ by at most twice
the bound. Where a router of the reference is within 2 B of a tie, the engine may send the token to
the other expert: a difference that begins at just such a position is exempt, and the rest of the
track, which carries the other choice on, is not judged. The engine's own margin is then within 4 B:
each side is off by B at most. One that tells a larger margin chose its expert for another reason.
If the reference does not tell how near its routers came, the margins of the engine alone are taken,
within 2 B, and the share of exemptions keeps them honest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.protocol import Description
from hotfire.errors import InputError

Floats = NDArray[np.float64]
TAIL_AND_CHAIN = 12.0
N_PERTURBED = 2
DRIFT = 0.25
"""Largest RMS difference of a row, in units of the bound on one logit."""
EXEMPT_MAX = 0.001
"""Share of positions that may be exempted from equality, where B is below `COARSE`."""
COARSE = 0.01
"""B of coarse arithmetic, such as bf16: near ties are then common, and are only counted."""
MEANINGLESS = 0.5
"""A row's relative drift beyond which a pass proves little: it is as large as the signal."""


def relative_bound(
    first: Description, second: Description, n_sublayers: int | None = None
) -> float:
    """12 A of the formula above: how far a logit may be off, in units of its row's RMS.

    Args:
        first, second: the two engines.
        n_sublayers: how many the value has passed; all and the head if None.
    """
    depth = max(first.n_layers, second.n_layers)
    n_sublayers = 2 * depth + 1 if n_sublayers is None else n_sublayers
    longest = max(first.longest_sum, second.longest_sum, 1)
    units = sum(each.unit_sum * np.sqrt(longest) + each.unit_stored for each in (first, second))
    return float(TAIL_AND_CHAIN * n_sublayers * units)


def rms(rows: Floats) -> Floats:
    """[n, width] -> [n] root of the mean square."""
    return np.asarray(np.sqrt(np.mean(np.square(rows), axis=-1)))


def log_softmax(rows: Floats) -> Floats:
    """[n, n_vocab] -> the same, log-probabilities."""
    shifted = rows - rows.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two engines' logits along the same tokens, one row a position, in order of time.

    Args:
        worst: [n] largest |got - want| a row, in units of the bound; NaN counts as infinite.
        drift: [n] RMS of got - want, in units of what it may be.
        flipped: [n] whether the argmax differs.
        margin: [n] reference logit of its argmax minus that of the other engine's, over the bound.
        tied: [n] whether a router of the reference was near a tie at this very position.
        kl: [n] KL divergence of the reference's distribution from the other's, nats.
        gap: [n] distance of the reference's two largest logits.
        bound: [n] the bound itself, in logits.
    """

    worst: Floats
    drift: Floats
    flipped: NDArray[np.bool_]
    margin: Floats
    tied: NDArray[np.bool_]
    kl: Floats
    gap: Floats
    bound: Floats

    @property
    def _beyond(self) -> NDArray[np.bool_]:
        off = (self.worst > 1) | (self.drift > 1)
        return off | (self.flipped & (self.margin > 2))

    @property
    def end(self) -> int:
        """The first position beyond the bound, if a router's tie explains it; else n."""
        beyond = np.flatnonzero(self._beyond)
        return int(beyond[0]) if len(beyond) and self.tied[beyond[0]] else len(self.worst)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """[n] positions that break the rule."""
        return self._beyond & (np.arange(len(self.worst)) < self.end)

    @property
    def exempt(self) -> NDArray[np.bool_]:
        """[n] positions that differ legally: a near tie of logits or of experts."""
        at = np.arange(len(self.worst))
        tie: NDArray[np.bool_] = at == self.end
        return tie | (self.flipped & ~self._beyond & (at < self.end))

    @property
    def unjudged(self) -> NDArray[np.bool_]:
        """[n] positions after a router went the other way."""
        return np.arange(len(self.worst)) > self.end


def router_ties(want: Floats | None, got: Floats | None, b: Floats) -> NDArray[np.bool_]:
    """[n] whether a router may have chosen another expert, as both of its logits may be off by b.

    Args:
        want, got: [n] the reference's router margins and the engine's; None if one cannot tell.
        b: [n] B of each row.
    """
    near = np.full(len(b), want is not None or got is not None)
    if want is not None:
        near &= want <= 2 * b
    if got is not None:
        near &= got <= (2 if want is None else 4) * b
    return near


def compare(want: Floats, got: Floats, b: Floats, tied: NDArray[np.bool_]) -> Comparison:
    """Compares rows.

    Args:
        want: [n, n_vocab] the reference's logits.
        got: the same, of the engine under test.
        b: [n] B of each row.
        tied: [n] as `router_ties` says of their positions.

    Raises:
        InputError: if the shapes differ.
    """
    if want.shape != got.shape:
        raise InputError(f"logits of shape {list(want.shape)} and {list(got.shape)}")
    bound = np.maximum(b * rms(want), np.finfo(np.float64).tiny)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(got - want).max(axis=1)
        drift = rms(got - want) / (DRIFT * bound)
    top, other = want.argmax(axis=1), np.where(np.isnan(got), -np.inf, got).argmax(axis=1)
    rows = np.arange(len(want))
    others = want.copy()
    others[rows, top] = -np.inf  # with one id alone nothing else could win
    want_log = log_softmax(want)
    with np.errstate(invalid="ignore", over="ignore"):
        kl = (np.exp(want_log) * (want_log - log_softmax(got))).sum(axis=1)
    return Comparison(
        worst=np.where(np.isfinite(off), off / bound, np.inf),
        drift=np.where(np.isfinite(drift), drift, np.inf),
        flipped=top != other,
        margin=(want[rows, top] - want[rows, other]) / bound,
        tied=tied,
        kl=np.where(np.isfinite(kl), np.maximum(kl, 0), np.inf),
        gap=want[rows, top] - others.max(axis=1),
        bound=bound,
    )


def perplexity(logits: Floats, tokens: NDArray[np.int64]) -> float:
    """exp of the mean negative log-probability of each token after the first.

    Args:
        logits: [n, n_vocab], the row of each token.
        tokens: [n] ids.
    """
    log_p = log_softmax(logits[:-1])
    return float(np.exp(-log_p[np.arange(len(log_p)), tokens[1:]].mean()))


def parting_layer(
    want: Floats, got: Floats, first: Description, second: Description, enlarged: float
) -> int | None:
    """Where two residual streams part: 0 for the embeddings, i + 1 for layer i, None for nowhere.

    A stream parts where it is off by more than the bound of the sublayers that it has passed.

    Args:
        want, got: [n_layers + 1, n_embd] at one position.
        first, second: the two engines.
        enlarged: M / A at that position, at least 1.
    """
    for index, (one, other) in enumerate(zip(want, got, strict=True)):
        allowed = enlarged * relative_bound(first, second, 2 * index + 1) * float(rms(one))
        if not float(np.abs(one - other).max()) <= allowed:
            return index
    return None
