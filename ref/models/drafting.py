"""What drafts tokens for a model to check, float64: its MTP head, and a block drafter.

**MTP head** (weights `mtp.*`), one token a step, as deep as one likes:

    h' = norm(block(fc [norm(embed(token)) ; norm(h)])),   logits = lm_head(h')

h is the model's own state after its final norm, or h' of the step before. The entry at index i
takes the state at i and token i + 1, stands for token i + 2, is rotated as position i, and attends
to the entries up to i.

**Block drafter** (after DFlash, arXiv 2602.06036), a whole block in one pass:

    c = norm(fc [x_a ; x_b ; ..]) of each position, x_l the residual stream after layer l
    b = block([embed(token), mask, mask, ..]),   logits = lm_head(norm(b[1:]))

The block begins with the last token, which the model has not seen yet. Its queries attend to the
keys and values of c at all positions before, and to the whole block, both ways.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Array, Integers
from hotfire.ref.models import layers, safetensors
from hotfire.ref.models.config import Config
from hotfire.ref.models.model import Model
from hotfire.ref.models.state import KeyValues
from hotfire.ref.models.tensors import Shape, Tensor, shapes

N_MTP = 3
"""How many steps an MTP head of ours was trained for."""
BLOCK = 8
"""Tokens of a block: the last one known, and the drafts after it."""
FILES = ("drafter.json", "drafter.safetensors")


@dataclass(frozen=True)
class Drafts:
    """A block drafter's sizes beyond those of its model.

    Args:
        layers: after which of the model's layers it reads the residual stream.
        n_layers: its own.
    """

    layers: tuple[int, ...] = (1, 4, 7)
    n_layers: int = 1


def _block_shapes(config: Config) -> dict[str, Shape]:
    """Of a full-attention layer, without its prefix."""
    one = Config(**{**vars(config), "full_attention": (True,)})
    prefix = "layers.0."
    found = shapes(one).items()
    return {name.removeprefix(prefix): shape for name, shape in found if name.startswith(prefix)}


def mtp_shapes(config: Config) -> dict[str, Shape]:
    """Name -> shape of the MTP head's weights."""
    wide, width = (config.n_embd, 2 * config.n_embd), (config.n_embd,)
    found: dict[str, Shape] = {"mtp.fc.weight": wide, "mtp.norm.weight": width}
    found |= {f"mtp.pre_fc_norm_{part}.weight": width for part in ("embedding", "hidden")}
    return found | {f"mtp.layers.0.{name}": shape for name, shape in _block_shapes(config).items()}


def drafter_shapes(config: Config, drafts: Drafts) -> dict[str, Shape]:
    """Name -> shape of the block drafter's weights."""
    width = (config.n_embd,)
    found: dict[str, Shape] = {"fc.weight": (config.n_embd, len(drafts.layers) * config.n_embd)}
    found |= dict.fromkeys(("hidden_norm.weight", "norm.weight", "mask"), width)
    for layer in range(drafts.n_layers):
        own = _block_shapes(config).items()
        found |= {f"layers.{layer}.{name}": shape for name, shape in own}
    return found


def _values(
    wanted: Mapping[str, Shape], weights: Mapping[str, Tensor], source: str
) -> dict[str, Array]:
    for name, shape in wanted.items():
        if name not in weights or weights[name].shape != shape:
            raise InputError(f"{source}: expected a tensor {name} of shape {list(shape)}")
    return {name: weights[name].values() for name in wanted}


def _below(weights: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


class Mtp:
    """The MTP head of a model.

    Args:
        model: whose embedding and head it shares.
        weights: as stored, `mtp.*` among them.

    Raises:
        InputError: if one is missing or of another shape; experts have no reference here.
    """

    def __init__(self, model: Model, weights: Mapping[str, Tensor]) -> None:
        if model.config.n_experts:
            raise InputError("the MTP head of a mixture of experts has no reference here")
        self.model, self.config = model, model.config
        values = _values(mtp_shapes(model.config), weights, model.source)
        self._w = _below(values, "mtp.")
        self._attention = _below(self._w, "layers.0.self_attn.")
        self._mlp = _below(self._w, "layers.0.mlp.")

    def fresh(self) -> KeyValues:
        """Before the first entry."""
        empty = np.zeros((0, self.config.n_kv_heads, self.config.head_dim))
        return KeyValues(empty, empty)

    def step(
        self, hidden: Array, tokens: Sequence[int], past: KeyValues
    ) -> tuple[Array, KeyValues]:
        """Appends entries.

        Args:
            hidden: [n, n_embd] normed states at the entries' indices.
            tokens: [n] each the token after.
            past: the entries before.

        Returns:
            [n, n_embd] h' of each, and all entries' keys and values.
        """
        embedded = self.model.weights["embed_tokens.weight"][np.asarray(tokens, dtype=np.int64)]
        both = [
            self._norm(embedded, "pre_fc_norm_embedding"),
            self._norm(hidden, "pre_fc_norm_hidden"),
        ]
        x = np.concatenate(both, axis=-1) @ self._w["fc.weight"].T
        h = self._norm(x, "layers.0.input_layernorm")
        mixed, now = layers.attention(h, self._attention, self.config, past, len(past.k))
        x = x + mixed
        x = x + layers.mlp(self._norm(x, "layers.0.post_attention_layernorm"), self._mlp)
        return self._norm(x, "norm"), now

    def draft(self, hidden: Array, token: int, past: KeyValues, n_drafts: int) -> list[int]:
        """The tokens that it expects.

        Args:
            hidden: [n_embd] the model's normed state, whose logits gave `token`.
            token: the last known.
            past: the entries before.
            n_drafts: how many.
        """
        found: list[int] = []
        h = hidden[None]
        for _ in range(n_drafts):
            h, past = self.step(h, [token], past)
            token = int(self.model.head(h)[0].argmax())
            found.append(token)
        return found

    def _norm(self, x: Array, name: str) -> Array:
        return layers.rms_norm(x, 1 + self._w[f"{name}.weight"], self.config.eps)


class Drafter:
    """The block drafter of a model.

    Args:
        model: whose embedding and head it shares.
        drafts: its sizes.
        weights: as stored, by the names of `drafter_shapes`.

    Raises:
        InputError: if one is missing or of another shape, or it reads a layer that is not there.
    """

    def __init__(self, model: Model, drafts: Drafts, weights: Mapping[str, Tensor]) -> None:
        if not all(0 <= layer < model.config.n_layers for layer in drafts.layers):
            raise InputError(
                f"a drafter of layers {drafts.layers}; there are {model.config.n_layers}"
            )
        self.model, self.config, self.drafts = model, model.config, drafts
        self.weights = self._w = _values(
            drafter_shapes(model.config, drafts), weights, "drafter.safetensors"
        )

    def context(self, stream: Array) -> Array:
        """[n_layers + 1, n, n_embd], embeddings first -> [n, n_embd] what a block may see."""
        features = np.concatenate([stream[layer + 1] for layer in self.drafts.layers], axis=-1)
        return self._norm(features @ self._w["fc.weight"].T, "hidden_norm")

    def logits(self, context: Array, token: int) -> Array:
        """Of the drafts after `token`, [BLOCK - 1, n_vocab].

        Args:
            context: [n_past, n_embd] of all positions before that of `token`.
        """
        n_past = len(context)
        embedded = self.model.weights["embed_tokens.weight"][token]
        x = np.stack([embedded, *[self._w["mask"]] * (BLOCK - 1)])
        pos = np.arange(n_past + BLOCK)
        for layer in range(self.drafts.n_layers):
            h = self._norm(x, f"layers.{layer}.input_layernorm")
            w = _below(self._w, f"layers.{layer}.self_attn.")
            x = x + self._attend(h, np.concatenate([context, h]), pos, w)
            h = self._norm(x, f"layers.{layer}.post_attention_layernorm")
            x = x + layers.mlp(h, self._w, f"layers.{layer}.mlp.")
        return self.model.head(self._norm(x, "norm"))[1:]

    def _attend(self, h: Array, seen: Array, pos: Integers, w: Mapping[str, Array]) -> Array:
        """The block's queries over everything: no mask, gated as in the model's layers."""
        c, n = self.config, len(h)
        rope = (c.n_rot, c.rope_theta)
        q, gate = np.split((h @ w["q_proj.weight"].T).reshape(n, c.n_heads, -1), 2, axis=-1)
        k = (seen @ w["k_proj.weight"].T).reshape(len(seen), c.n_kv_heads, -1)
        v = (seen @ w["v_proj.weight"].T).reshape(len(seen), c.n_kv_heads, -1)
        q = layers.rotate(layers.rms_norm(q, 1 + w["q_norm.weight"], c.eps), pos[-n:], *rope)
        k = layers.rotate(layers.rms_norm(k, 1 + w["k_norm.weight"], c.eps), pos, *rope)
        groups = q.reshape(n, c.n_kv_heads, -1, c.head_dim)
        scores = np.einsum("tgrd,sgd->grts", groups, k, optimize=True) / np.sqrt(c.head_dim)
        weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        out = np.einsum("grts,sgd->tgrd", weight, v, optimize=True).reshape(n, -1)
        mixed: Array = (out * layers.sigmoid(gate.reshape(n, -1))) @ w["o_proj.weight"].T
        return mixed

    def _norm(self, x: Array, name: str) -> Array:
        return layers.rms_norm(x, 1 + self._w[f"{name}.weight"], self.config.eps)


def open_drafter(model: Model, folder: Path) -> Drafter:
    """The block drafter that lies beside a checkpoint.

    Raises:
        InputError: if there is none, or its files cannot be used.
    """
    source = folder / FILES[0]
    try:
        said = json.loads(source.read_text(encoding="utf-8"))
        block, read = int(said["block_size"]), tuple(map(int, said["target_layer_ids"]))
        n_layers = int(said["num_hidden_layers"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise InputError(f"{source} is no drafter's configuration: {error}") from None
    if block != BLOCK:
        raise InputError(f"{source}: block_size {block}; expected {BLOCK}")
    weights = safetensors.read(folder / FILES[1])
    return Drafter(model, Drafts(read, n_layers), weights)


def drafter_json(drafts: Drafts) -> str:
    """The configuration that `open_drafter` reads."""
    fields = {
        "block_size": BLOCK,
        "target_layer_ids": list(drafts.layers),
        "num_hidden_layers": drafts.n_layers,
    }
    return json.dumps(fields, indent=1) + "\n"
