"""`numpy:MODEL`, the float64 reference as an engine."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from hotfire.engines.protocol import Description
from hotfire.engines.sequential import Held, Sequential, Step
from hotfire.engines.targets import Options
from hotfire.errors import InputError
from hotfire.ref.models import state as states
from hotfire.ref.models.config import Config
from hotfire.ref.models.load import load
from hotfire.ref.models.model import Model
from hotfire.ref.models.state import State
from hotfire.ref.models.tensors import Tensor, derived

UNIT = 2.0**-53
KINDS = {True: "full_attention", False: "linear_attention"}
_NOT_OF_RESULTS = ("tied", "n_ctx_train")
"""Of a configuration: how it is stored, and what it is meant for."""


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """The first 12 digits of a SHA-256 over all weights as stored."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(f"{name} {weights[name].dtype} {weights[name].shape}".encode())
        digest.update(weights[name].data.tobytes())
    return digest.hexdigest()[:12]


def _facts(config: Config) -> dict[str, object]:
    """What results depend on besides weights; real numbers as a file's f32 keeps them."""
    facts: dict[str, object] = {"n_layers": config.n_layers}
    for name, value in asdict(config).items():
        if name == "full_attention":
            facts["full_attention_layers"] = [layer for layer, full in enumerate(value) if full]
        elif name not in _NOT_OF_RESULTS:
            facts[name] = float(str(np.float32(value))) if isinstance(value, float) else value
    return facts


def describe(
    name: str, config: Config, *, n_ctx: int, n_seqs: int, n_batch: int, unit: float,
    scope: Mapping[str, str],
) -> Description:  # fmt: skip
    """The description of an engine that computes in one floating type throughout."""
    return Description(
        name=name,
        n_vocab=config.n_vocab,
        n_ctx=n_ctx,
        n_seqs=n_seqs,
        n_batch=n_batch,
        n_layers=config.n_layers,
        n_embd=config.n_embd,
        longest_sum=config.longest_sum,
        layer_kinds=tuple(KINDS[full] for full in config.full_attention),
        model=_facts(config),
        unit_sum=unit,
        unit_stored=unit,
        scope=scope,
    )


class NumpyEngine(Sequential[State]):
    """A float64 model as an engine.

    Args:
        model: the model.
        description: what it is.
    """

    def __init__(self, model: Model, description: Description) -> None:
        super().__init__(description)
        self.model = model

    def perturbed(self, unit: float, seed: int) -> NumpyEngine:
        """The same model with every weight off by a relative normal error of size `unit`.

        Where its logits go is where an engine's own rounding may take them.
        """
        rng = np.random.default_rng([seed, 0x4E4F4953])
        weights = {
            name: derived(values * (1 + unit * rng.standard_normal(values.shape)))
            for name, values in self.model.weights.items()
        }
        return NumpyEngine(Model(self.model.config, weights, "perturbed"), self.description)

    def fresh(self) -> State:
        return self.model.fresh()

    def advance(self, state: State, tokens: Sequence[int], hidden: bool) -> Step[State]:
        out = self.model.forward(tokens, state, keep_hidden=hidden)
        margin = out.router_margin if self.model.config.n_experts else None
        return Step(out.state, out.logits, out.hidden, margin)

    def dump(self, held: Held[State]) -> bytes:
        head = self.head_of(held)
        return struct.pack("<Q", len(head)) + head + states.to_bytes(held.state)

    def load(self, saved: bytes) -> Held[State]:
        length = int.from_bytes(saved[:8], "little")
        tokens = self.tokens_of(saved[8 : 8 + length])
        state = states.from_bytes(self.model.config, saved[8 + length :])
        if state.n_past != len(tokens):
            raise InputError("these bytes are no saved state: tokens and state differ in length")
        return Held(state, tokens)


def open_target(name: str, model: str, options: Options) -> NumpyEngine:
    """Opens `numpy:MODEL`; options n_ctx, n_seqs, n_batch, a probe's sizes, fault and chunk."""
    from hotfire.engines import faults

    sizes, fault = options.sizes(), options.text("fault")
    chunk = options.whole("chunk", 64) if fault else 0
    config, weights = load(model, options.probe())
    options.finish()
    scope = {"weights": fingerprint(weights), "arithmetic": "float64"}
    description = describe(name, config, unit=UNIT, scope=scope, **sizes)
    if fault:
        return faults.planted(fault, chunk, config, weights, description)
    return NumpyEngine(Model(config, weights, model), description)
