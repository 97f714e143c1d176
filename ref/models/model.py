"""Qwen3.5 in float64: tokens and a state in, logits and a new state out.

x += mixer(norm(x));  x += mlp(norm(x));  logits = lm_head(norm(x)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Array
from hotfire.ref.models import layers, tensors
from hotfire.ref.models.config import Config
from hotfire.ref.models.state import KeyValues, LayerState, State, fresh
from hotfire.ref.models.tensors import Tensor


@dataclass(frozen=True)
class Output:
    """What a forward pass gives.

    Args:
        logits: [n_tokens, n_vocab].
        state: after the last token.
        hidden: [n_layers + 1, n_tokens, n_embd] the residual stream: embeddings, then after each
            layer; None unless asked for.
        router_margin: [n_tokens] the least relative margin of any layer's router; infinite without
            one.
    """

    logits: Array
    state: State
    hidden: Array | None
    router_margin: Array


class Model:
    """A model whose weights are in memory, float64.

    Args:
        config: its sizes.
        weights: as stored, by the names of `tensors.shapes`; others are ignored.
        source: where they come from, for messages.

    Raises:
        InputError: if a weight is missing or of another shape.
    """

    def __init__(self, config: Config, weights: Mapping[str, Tensor], source: str) -> None:
        tensors.check(config, {name: each.shape for name, each in weights.items()}, source)
        self.config = config
        self.source = source
        self.weights = {name: weights[name].values() for name in tensors.shapes(config)}
        self._mixers: list[layers.Weights] = []
        self._mlps: list[layers.Weights] = []
        for layer, full in enumerate(config.full_attention):
            self._mixers.append(self._below(layer, "self_attn" if full else "linear_attn"))
            self._mlps.append(self._below(layer, "mlp"))
        head = "embed_tokens.weight" if config.tied else "lm_head.weight"
        self._head = self.weights[head]

    def _below(self, layer: int, part: str) -> layers.Weights:
        prefix = f"layers.{layer}.{part}."
        return {
            name.removeprefix(prefix): value
            for name, value in self.weights.items()
            if name.startswith(prefix)
        }

    def fresh(self) -> State:
        """The state of a sequence that has seen nothing."""
        return fresh(self.config)

    def forward(
        self, tokens: Sequence[int], state: State | None = None, *, keep_hidden: bool = False
    ) -> Output:
        """Runs tokens after those that `state` has seen.

        Args:
            tokens: ids, at least one.
            state: None begins a sequence.
            keep_hidden: whether the residual stream is kept.

        Raises:
            InputError: if there is no token, or an id is not in the vocabulary.
        """
        ids = np.asarray(tokens, dtype=np.int64)
        if ids.ndim != 1 or not len(ids) or ids.min() < 0 or ids.max() >= self.config.n_vocab:
            raise InputError(f"tokens: expected at least one id of 0 to {self.config.n_vocab - 1}")
        state = self.fresh() if state is None else state
        x = self.weights["embed_tokens.weight"][ids]
        hidden, new_layers = [x], list[LayerState]()
        margin = np.full(len(ids), np.inf)
        for layer in range(self.config.n_layers):
            mixed, after = self.mix(layer, self._norm(x, f"layers.{layer}.input_layernorm"), state)
            new_layers.append(after)
            x = x + mixed
            h = self._norm(x, f"layers.{layer}.post_attention_layernorm")
            added, layer_margin = self._feed_forward(layer, h)
            x = x + added
            margin = np.minimum(margin, layer_margin)
            hidden.append(x)
        logits = self.head(self.normed(x))
        kept = np.stack(hidden) if keep_hidden else None
        return Output(logits, state.with_layers(new_layers, len(ids)), kept, margin)

    def normed(self, x: Array) -> Array:
        """The residual stream after the last layer, normed: what the head and drafters read."""
        return self._norm(x, "norm")

    def head(self, h: Array) -> Array:
        """Logits of normed states."""
        return h @ self._head.T

    def mix(self, layer: int, h: Array, state: State) -> tuple[Array, LayerState]:
        """The token mixer of one layer, on normed inputs, and the layer's state after it."""
        past, weights = state.layers[layer], self._mixers[layer]
        if isinstance(past, KeyValues):
            return layers.attention(h, weights, self.config, past, state.n_past)
        return layers.delta_net(h, weights, self.config, past)

    def _feed_forward(self, layer: int, h: Array) -> tuple[Array, Array]:
        if self.config.n_experts:
            return layers.experts(h, self._mlps[layer], self.config)
        return layers.mlp(h, self._mlps[layer]), np.full(len(h), np.inf)

    def _norm(self, x: Array, name: str) -> Array:
        return layers.rms_norm(x, 1 + self.weights[f"{name}.weight"], self.config.eps)
