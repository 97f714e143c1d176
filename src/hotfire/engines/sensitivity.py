"""How far a planted fault moves a model's logits: what a suite's pass on that model can prove.

A model on which a fault moves nothing cannot show it, however sharp the comparison. So the faults
of `faults` are planted one after another, led along prompts at once, in chunks and on a walk, and
the largest difference of a logit is told in units of the bound that an f32 engine has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hotfire.engines.compare import N_PERTURBED, compare
from hotfire.engines.exact import bounds
from hotfire.engines.faults import planted
from hotfire.engines.leading import Walker, lead
from hotfire.engines.numpy_ import UNIT, NumpyEngine, describe
from hotfire.engines.outcome import WALK
from hotfire.engines.tracks import Track, reference_track
from hotfire.engines.walked import Walked
from hotfire.ref.models.config import Config
from hotfire.ref.models.model import Model
from hotfire.ref.models.tensors import Tensor

ENOUGH = 100.0
"""Times the f32 bound: a fault that moves logits by less is not to be looked for on a model."""
UNIT_F32 = 2.0**-24
CHUNK = 64
WAYS = (0, CHUNK, WALK)
N_GENERATED = 16
SIZES = {"n_ctx": 4096, "n_seqs": 4, "n_batch": 4096}


class Sensitivity:
    """Measures one model.

    Args:
        config, weights: the model.
        prompts: token ids, some hundred each.
        seed: of the walks.
    """

    def __init__(
        self,
        config: Config,
        weights: dict[str, Tensor],
        prompts: Sequence[Sequence[int]],
        seed: int = 0,
    ) -> None:
        self._config, self._weights, self._seed = config, weights, seed
        self._own = describe("numpy", config, unit=UNIT, scope={}, **SIZES)
        self._f32 = replace(self._own, unit_sum=UNIT_F32, unit_stored=UNIT_F32)
        self._reference = own = NumpyEngine(Model(config, weights, "sensitivity"), self._own)
        twins = [own.perturbed(2 * UNIT_F32, number) for number in range(N_PERTURBED)]
        self._tracks = [reference_track(own, each, N_GENERATED, twins) for each in prompts]

    def moved(self, fault: str) -> list[float]:
        """For each prompt, the largest difference of a logit over all ways, over its f32 bound.

        Args:
            fault: one of `faults.FAULTS`, or "" for a right engine.
        """
        engine = self._reference
        if fault:
            engine = planted(fault, CHUNK, self._config, self._weights, self._own)
        found = []
        for number, track in enumerate(self._tracks):
            found.append(max(self._worst(engine, track, way, number) for way in WAYS))
        return found

    def _worst(self, engine: NumpyEngine, track: Track, way: int, number: int) -> float:
        walked = Walked(engine)
        if way == WALK:
            led = Walker(walked, np.random.default_rng([self._seed, number])).walk(track)
        else:
            led = lead(walked, track, way)
        got, pos = np.concatenate(led.logits), np.array(led.pos)
        b = bounds(track, self._own, self._f32)[pos]
        compared = compare(track.logits[pos], got, b, np.zeros(len(pos), dtype=np.bool_))
        return float(compared.worst.max())


def enough(moved: Sequence[float]) -> bool:
    """Whether every prompt showed the fault."""
    return min(moved) >= ENOUGH
