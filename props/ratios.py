"""How close right kernels come to their bounds: the tolerances themselves, tested.

A bound that is never approached finds little, one that a right kernel reaches cries wolf.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotfire.props.case import Case, draw_inputs
from hotfire.props.compare import right_of
from hotfire.props.execute import Subject, execute
from hotfire.props.fills import RANDOM_FILLS
from hotfire.props.strategies import cases

TAIL = 20
"""So many of the largest ratios make the tail."""


@dataclass(frozen=True)
class Ratios:
    """The worst error of each case, as a share of its bound.

    Args:
        largest: over all cases.
        case: where it was seen.
        n_cases: that had something to compare.
        alarm_rate: the probability that one case reaches its bound, were the tail of the cases'
            ratios to fall beyond the largest as a power does; 3 / n_cases at most where it falls
            too fast to tell.
    """

    largest: float
    case: Case | None
    n_cases: int
    alarm_rate: float


def ratios(subject: Subject, n_cases: int, seed: int = 0) -> Ratios:
    """Runs cases of every fill and keeps each one's largest ratio of error to bound."""
    rng = random.Random(f"{seed} {subject.operation.name}")  # noqa: S311 - a draw, not a secret
    fills = (*RANDOM_FILLS, *subject.operation.fills)
    draw = cases(subject.operation, fills=fills, smallest=1)
    found = sorted(
        ((ratio(subject, case), case) for case in (draw(rng) for _ in range(n_cases))),
        key=lambda each: each[0],
    )
    values = [value for value, _ in found if value > 0]
    largest, case = found[-1] if values else (0.0, None)
    return Ratios(largest, case, len(values), alarm_rate(values))


def ratio(subject: Subject, case: Case) -> float:
    """The largest |got - want| / bound of a case; 0 where nothing has a bound above zero."""
    inputs = draw_inputs(subject.operation, case)
    got = execute(subject, case, inputs.stored, inputs.scalars)
    right = right_of(subject, inputs, case)
    worst = 0.0
    for operand in subject.operation.outputs:
        want = right.want[operand.name]
        bound = np.broadcast_to(right.bound[operand.name], want.shape)
        telling = bound > 0
        if telling.any():
            error = np.abs(operand.format.decode(got[operand.name], want.shape) - want)
            worst = max(worst, float((error[telling] / bound[telling]).max()))
    return worst


def alarm_rate(values: Sequence[float]) -> float:
    """The probability of a ratio of 1 or more, by Hill's estimate of the tail's power.

    Args:
        values: ratios of independent cases, ascending.
    """
    n = len(values)
    if n <= TAIL:
        return 1.0
    edge = values[-TAIL - 1]
    mean = sum(math.log(value / edge) for value in values[-TAIL:]) / TAIL
    if values[-1] >= 1:
        return sum(value >= 1 for value in values) / n
    return TAIL / n * edge ** (1 / mean) if mean > 0 else 3 / n
