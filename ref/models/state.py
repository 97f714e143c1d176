"""What a sequence carries from one token to the next: keys and values, conv history, S.

States are never changed in place: `forward` returns a new one and the old one stays true, so that
keeping a reference is a snapshot.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, replace

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Array
from hotfire.ref.models.config import Config


@dataclass(frozen=True)
class KeyValues:
    """A full-attention layer's past: k (rotated) and v, [kv_len, n_kv_heads, head_dim]."""

    k: Array
    v: Array


@dataclass(frozen=True)
class Recurrent:
    """A Gated DeltaNet layer's past.

    Args:
        conv: [conv_width - 1, n_conv] last inputs of the convolution, oldest first.
        s: [n_value_heads, key_dim, value_dim] the matrix S.
    """

    conv: Array
    s: Array


LayerState = KeyValues | Recurrent


@dataclass(frozen=True)
class State:
    """A sequence after `n_past` tokens, a `LayerState` a layer."""

    n_past: int
    layers: tuple[LayerState, ...]

    def with_layers(self, layers: list[LayerState], n_tokens: int) -> State:
        """The state `n_tokens` later."""
        return replace(self, n_past=self.n_past + n_tokens, layers=tuple(layers))


def fresh(config: Config) -> State:
    """The state of a sequence that has seen nothing."""
    kv = np.zeros((0, config.n_kv_heads, config.head_dim))
    conv = np.zeros((config.conv_width - 1, config.n_conv))
    s = np.zeros((config.n_value_heads, config.key_dim, config.value_dim))
    kinds = config.full_attention
    return State(0, tuple(KeyValues(kv, kv) if full else Recurrent(conv, s) for full in kinds))


def to_bytes(state: State) -> bytes:
    """The state as an .npz archive."""
    arrays: dict[str, Array] = {}
    for index, layer in enumerate(state.layers):
        arrays |= {f"{index}.{name}": value for name, value in vars(layer).items()}
    out = io.BytesIO()
    np.savez(out, n_past=np.int64(state.n_past), **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def from_bytes(config: Config, saved: bytes) -> State:
    """The inverse of `to_bytes`.

    Raises:
        InputError: if these bytes are no state of such a model.
    """
    try:
        with np.load(io.BytesIO(saved), allow_pickle=False) as archive:
            n_past = int(archive["n_past"])
            layers = tuple(_layer(archive, i, full) for i, full in enumerate(config.full_attention))
            if len(archive.files) != 1 + 2 * len(layers):
                raise InputError("saved state: it has more layers than the model")
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"these bytes are no saved state of this model: {error}") from None
    state = State(n_past, layers)
    for index, (got, want) in enumerate(zip(layers, fresh(config).layers, strict=True)):
        for name, value in vars(want).items():
            shape = (n_past, *value.shape[1:]) if isinstance(want, KeyValues) else value.shape
            if getattr(got, name).shape != shape or getattr(got, name).dtype != np.float64:
                raise InputError(f"saved state: layer {index} {name} is not f64 {list(shape)}")
    return state


def _layer(archive: np.lib.npyio.NpzFile, index: int, full: bool) -> LayerState:
    if full:
        return KeyValues(archive[f"{index}.k"], archive[f"{index}.v"])
    return Recurrent(archive[f"{index}.conv"], archive[f"{index}.s"])
