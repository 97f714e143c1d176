"""Planted faults of the numpy engine: what a suite must find before its passes mean anything.

`numpy:MODEL,fault=NAME`. Each is a fault that a real engine has shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.numpy_ import NumpyEngine
from hotfire.engines.protocol import Batch, Description
from hotfire.engines.sequential import Held, Step
from hotfire.errors import InputError
from hotfire.ref.formats import Array
from hotfire.ref.models.config import Config
from hotfire.ref.models.layers import softplus
from hotfire.ref.models.model import Model, Output
from hotfire.ref.models.state import KeyValues, LayerState, Recurrent, State
from hotfire.ref.models.tensors import Tensor


class _LosesHistory(Model):
    """The convolution's history is lost where a chunk of several tokens starts.

    Args:
        chunk: how many tokens the model computes at once.
    """

    def __init__(self, config: Config, weights: Mapping[str, Tensor], chunk: int) -> None:
        super().__init__(config, weights, "faulty")
        self._chunk = chunk

    def forward(
        self, tokens: Sequence[int], state: State | None = None, *, keep_hidden: bool = False
    ) -> Output:
        state = self.fresh() if state is None else state
        parts = []
        for at in range(0, len(tokens), self._chunk):
            piece = tokens[at : at + self._chunk]
            if state.n_past and len(piece) > 1:
                state = replace(state, layers=tuple(map(_without_conv, state.layers)))
            parts.append(super().forward(piece, state, keep_hidden=keep_hidden))
            state = parts[-1].state
        hidden = [part.hidden for part in parts if part.hidden is not None]
        return Output(
            np.concatenate([part.logits for part in parts]),
            state,
            np.concatenate(hidden, axis=1) if hidden else None,
            np.concatenate([part.router_margin for part in parts]),
        )


def _without_conv(layer: LayerState) -> LayerState:
    return replace(layer, conv=layer.conv * 0) if isinstance(layer, Recurrent) else layer


class _GateAtWrongIndex(Model):
    """S after a chunk lacks the decay of the chunk's last token."""

    def mix(self, layer: int, h: Array, state: State) -> tuple[Array, LayerState]:
        mixed, after = super().mix(layer, h, state)
        if isinstance(after, Recurrent) and len(h) > 1:
            w = self._mixers[layer]
            rate = np.exp(w["A_log"]) * softplus(w["in_proj_a.weight"] @ h[-1] + w["dt_bias"])
            after = replace(after, s=after.s * np.exp(rate)[:, None, None])
        return mixed, after


class _RollbackKeepsState(NumpyEngine):
    """Rolling back forgets keys and values, but neither S nor the convolution's history."""

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        before = self._held.get(seq_id)
        kept = before.state if before else None
        done = super().seq_remove(seq_id, pos)
        if kept and pos:
            held = self._held[seq_id]
            held.state = replace(held.state, layers=_recurrent_of(kept, held.state))
        return done


class _SlotNotCleared(NumpyEngine):
    """A sequence that begins in a used slot begins with the S of the one before it."""

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        before = self._held.get(seq_id)
        done = super().seq_remove(seq_id, pos)
        if before and pos == 0:
            fresh = self.fresh()
            self._held[seq_id] = Held(replace(fresh, layers=_recurrent_of(before.state, fresh)))
        return done


class _ConvOfNeighbour(NumpyEngine):
    """In a batch, a sequence reads the convolution's history of the one before it."""

    def _advance_all(
        self, batch: Batch, places: Mapping[int, NDArray[np.intp]]
    ) -> dict[int, Step[State]]:
        for seq_id in places:
            self._held.setdefault(seq_id, Held(self.fresh()))
        states = [self._held[seq_id].state for seq_id in places]
        for seq_id, own, other in zip(places, states, states[-1:] + states[:-1], strict=True):
            layers = tuple(map(_conv_of, other.layers, own.layers))
            self._held[seq_id].state = replace(own, layers=layers)
        return super()._advance_all(batch, places)


def _conv_of(other: LayerState, own: LayerState) -> LayerState:
    if isinstance(other, Recurrent) and isinstance(own, Recurrent):
        return replace(own, conv=other.conv)
    return own


def _recurrent_of(old: State, new: State) -> tuple[LayerState, ...]:
    """The new state's keys and values with the old one's recurrent states."""
    return tuple(
        theirs if isinstance(theirs, KeyValues) else ours
        for ours, theirs in zip(old.layers, new.layers, strict=True)
    )


_MODELS: dict[str, Callable[[Config, Mapping[str, Tensor], int], Model]] = {
    "history_lost_at_chunk_start": _LosesHistory,
    "final_gate_at_wrong_index": lambda c, w, _: _GateAtWrongIndex(c, w, "faulty"),
    "rope_over_whole_head": lambda c, w, _: Model(replace(c, n_rot=c.head_dim), w, "faulty"),
}
_ENGINES: dict[str, type[NumpyEngine]] = {
    "rollback_keeps_state": _RollbackKeepsState,
    "slot_not_cleared": _SlotNotCleared,
    "conv_of_neighbour": _ConvOfNeighbour,
}
FAULTS = (*_MODELS, *_ENGINES)


def planted(
    name: str, chunk: int, config: Config, weights: Mapping[str, Tensor], description: Description
) -> NumpyEngine:
    """A numpy engine with one fault.

    Raises:
        InputError: if there is no such fault.
    """
    if name in _MODELS:
        return NumpyEngine(_MODELS[name](config, weights, chunk), description)
    if name in _ENGINES:
        return _ENGINES[name](Model(config, weights, "faulty"), description)
    raise InputError(f"fault {name!r} is not known; expected one of {', '.join(FAULTS)}")
