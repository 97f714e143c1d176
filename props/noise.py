"""Tiers T2 and T3: against the unquantised values, with the quantiser's own noise as the unit."""

from __future__ import annotations

import numpy as np

from hotfire.props.case import Case, Inputs
from hotfire.props.execute import Broken, Subject, execute
from hotfire.ref.formats import Array, Bytes
from hotfire.ref.operation import SMALLEST_NORMAL, Values, evaluate

Z_MAX = 7.0
"""No element of a right result is this many standard deviations off: 2.6e-12 an element."""

RMS_MAX = 1.6
"""What the root mean square of z may be at least, however many elements there are; z of one row
share their input's noise.
"""

RMS_SIGMAS = 7.0
"""How far above 1 the root mean square of z may be, in standard errors of as many samples as are
independent.
"""

MEAN_MAX = 6.0
"""The most that the mean of z may be, in standard errors at the worst correlation."""

N_LEAST = 64
"""Fewer elements than these say nothing of a mean."""


def noise_is_the_quantisers(subject: Subject, case: Case) -> bool:
    """T2: z = (got - unquantised) / sigma is small for every element, where sigma follows from what
    encoding the inputs lost. T3: so are its mean and its root mean square.
    """
    rule = "noise_is_the_quantisers"
    operation = subject.operation
    assert operation.noise is not None
    rng = np.random.default_rng(case.seed)
    values: Values = operation.structure(rng, dict(case.sizes)) if operation.structure else {}
    stored: dict[str, Bytes] = {}
    variances: Values = {}
    for each in operation.drawn:
        if each.name not in values:
            normal = rng.standard_normal(each.shape(case.sizes)).astype(np.float32)
            values[each.name] = normal.astype(np.float64)
        drawn = values[each.name]
        stored[each.name] = each.format.encode(drawn)
        if each.format.is_lossy:
            lost = each.format.decode(stored[each.name], drawn.shape) - drawn
            variances[f"{each.name}_var"] = lost * lost
    inputs = Inputs(stored, values, dict(case.scalars))
    got = execute(subject, case, stored, inputs.scalars)
    want = evaluate(operation.reference, values, inputs.scalars, case.sizes)
    spread = evaluate(operation.noise, {**values, **variances}, inputs.scalars, case.sizes)
    bound = evaluate(operation.bound, values, inputs.scalars, case.sizes)
    for each in operation.outputs:
        shape = want[each.name].shape
        error = each.format.decode(got[each.name], shape) - want[each.name]
        sigma = np.sqrt(spread[each.name]) + bound[each.name] + SMALLEST_NORMAL
        n_independent = float(spread.get(f"{each.name}_independent", error.size))
        _check_z(rule, each.name, error / sigma, n_independent)
    return all(data.size for data in got.values())


def _check_z(rule: str, name: str, z: Array, n_independent: float) -> None:
    if not z.size:
        return
    if not np.abs(z).max() <= Z_MAX:
        at = tuple(int(i) for i in np.unravel_index(np.nanargmax(np.abs(z)), z.shape))
        raise Broken(rule, f"{name}{list(at)} is {z[at]:.3g} standard deviations of noise off")
    if z.size < N_LEAST:
        return
    rms, mean = float(np.sqrt((z * z).mean())), float(z.mean())
    rms_most = max(RMS_MAX, 1 + RMS_SIGMAS / np.sqrt(2 * n_independent))
    mean_most = MEAN_MAX / np.sqrt(min(z.size, n_independent))
    if rms > rms_most or abs(mean) > mean_most:
        raise Broken(
            rule,
            f"{name}: z has a root mean square of {rms:.3g} and a mean of {mean:.3g} over {z.size} "
            f"elements; expected at most {rms_most:.3g} and {mean_most:.3g}",
        )
