"""The sizes of a Qwen3.5 text model, read from the family's own config.json.

The fields are those of `transformers` (configuration_qwen3_5.py, configuration_qwen3_5_moe.py); a
multimodal checkpoint nests them under `text_config`, where only these are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotfire.errors import InputError

MODEL_TYPES = ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
SIZE_MAX = 2**24
"""No size of a real model is beyond it; a larger one is a damaged or hostile file."""
LAYERS_MAX = 1024
ROPE_DEFAULTS = {"rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25}
MROPE_SECTION = (11, 11, 10)
"""The family's default split of rotary pairs over time, height and width; text never sees it."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes and constants of a model.

    Args:
        n_vocab, n_embd, n_ff: widths; `n_ff` is that of the dense MLP, 0 for experts.
        n_heads, n_kv_heads, head_dim: of the full-attention layers.
        n_rot: how many leading dims of a head are rotated.
        rope_theta: base of the rotary frequencies.
        n_key_heads, n_value_heads, key_dim, value_dim: of the Gated DeltaNet layers, a head.
        conv_width: taps of their causal convolution.
        full_attention: for each layer, whether it is full attention.
        eps: in every norm.
        tied: whether the embedding is also the output head.
        n_experts, n_experts_used, n_ff_expert, n_ff_shared: 0 in a dense model.
        n_ctx_train: the longest context that the model was made for.
    """

    n_vocab: int
    n_embd: int
    n_ff: int = 0
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_rot: int
    rope_theta: float = 10_000_000.0
    n_key_heads: int
    n_value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int = 4
    full_attention: tuple[bool, ...]
    eps: float = 1e-6
    tied: bool = False
    n_experts: int = 0
    n_experts_used: int = 0
    n_ff_expert: int = 0
    n_ff_shared: int = 0
    n_ctx_train: int = 32768

    def __post_init__(self) -> None:
        for name in (
            "n_vocab", "n_embd", "n_heads", "n_kv_heads", "head_dim", "n_rot", "n_key_heads",
            "n_value_heads", "key_dim", "value_dim", "conv_width", "n_ctx_train",
        ):  # fmt: skip
            _in_range(name, getattr(self, name))
        if not 1 <= self.n_layers <= LAYERS_MAX:
            raise InputError(f"n_layers={self.n_layers}; expected 1 to {LAYERS_MAX}")
        _multiple("n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        _multiple("n_value_heads", self.n_value_heads, "n_key_heads", self.n_key_heads)
        if self.n_rot % 2 or self.n_rot > self.head_dim:
            raise InputError(f"n_rot={self.n_rot}; expected an even number <= {self.head_dim}")
        if self.n_experts:
            for name in ("n_experts", "n_experts_used", "n_ff_expert", "n_ff_shared"):
                _in_range(name, getattr(self, name))
            if self.n_experts_used > self.n_experts:
                raise InputError(
                    f"n_experts_used={self.n_experts_used}; expected <= {self.n_experts}"
                )
        else:
            _in_range("n_ff", self.n_ff)

    @property
    def n_layers(self) -> int:
        """How many blocks there are."""
        return len(self.full_attention)

    @property
    def n_conv(self) -> int:
        """Channels of the convolution: q, k and v of a Gated DeltaNet layer."""
        return 2 * self.n_key_heads * self.key_dim + self.n_value_heads * self.value_dim

    @property
    def longest_sum(self) -> int:
        """Terms of the longest dot product with weights, for error bounds."""
        return max(
            self.n_embd, self.n_ff, self.n_heads * self.head_dim, self.n_ff_expert,
            self.n_ff_shared, self.n_value_heads * self.value_dim,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The fields of the family's config.json, as `transformers` reads them."""
        moe = bool(self.n_experts)
        kinds = ["full_attention" if full else "linear_attention" for full in self.full_attention]
        fields: dict[str, Any] = {
            "architectures": [f"Qwen3_5{'Moe' if moe else ''}ForCausalLM"],
            "model_type": f"qwen3_5{'_moe' if moe else ''}_text",
            "vocab_size": self.n_vocab,
            "hidden_size": self.n_embd,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.eps,
            "max_position_embeddings": self.n_ctx_train,
            "tie_word_embeddings": self.tied,
            "layer_types": kinds,
            "linear_conv_kernel_dim": self.conv_width,
            "linear_key_head_dim": self.key_dim,
            "linear_value_head_dim": self.value_dim,
            "linear_num_key_heads": self.n_key_heads,
            "linear_num_value_heads": self.n_value_heads,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "partial_rotary_factor": self.n_rot / self.head_dim,
                "mrope_section": list(MROPE_SECTION),
                "mrope_interleaved": True,
            },
        }
        if moe:
            fields |= {
                "num_experts": self.n_experts,
                "num_experts_per_tok": self.n_experts_used,
                "moe_intermediate_size": self.n_ff_expert,
                "shared_expert_intermediate_size": self.n_ff_shared,
            }
        else:
            fields["intermediate_size"] = self.n_ff
        return fields


def from_json(text: str, source: str) -> Config:
    """Reads a config.json.

    Args:
        text: the file.
        source: its name, for messages.

    Raises:
        InputError: if it is no JSON object, of another family, or a field is missing or absurd.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise InputError(f"{source}: expected a JSON object, got {type(tree).__name__}")
    try:
        return _from_fields(tree)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _from_fields(tree: Mapping[str, Any]) -> Config:
    kind = tree.get("model_type")
    if kind not in MODEL_TYPES:
        raise InputError(f"model_type {kind!r}; expected one of {', '.join(MODEL_TYPES)}")
    nested = tree.get("text_config", tree)
    if not isinstance(nested, dict):
        raise InputError("text_config is no object")
    fields = {**nested, "tie_word_embeddings": _tied(tree, nested)}
    _refuse_other_arithmetic(fields)
    head_dim = _whole(fields, "head_dim", 256)
    rope = {**ROPE_DEFAULTS, **_rope(fields)}
    experts = {}
    if "moe" in str(kind):
        experts = {
            "n_experts": _whole(fields, "num_experts"),
            "n_experts_used": _whole(fields, "num_experts_per_tok"),
            "n_ff_expert": _whole(fields, "moe_intermediate_size"),
            "n_ff_shared": _whole(fields, "shared_expert_intermediate_size"),
        }
    return Config(
        n_vocab=_whole(fields, "vocab_size"),
        n_embd=_whole(fields, "hidden_size"),
        n_ff=0 if experts else _whole(fields, "intermediate_size"),
        n_heads=_whole(fields, "num_attention_heads"),
        n_kv_heads=_whole(fields, "num_key_value_heads"),
        head_dim=head_dim,
        n_rot=int(head_dim * _real(rope, "partial_rotary_factor")),
        rope_theta=_real(rope, "rope_theta"),
        n_key_heads=_whole(fields, "linear_num_key_heads"),
        n_value_heads=_whole(fields, "linear_num_value_heads"),
        key_dim=_whole(fields, "linear_key_head_dim"),
        value_dim=_whole(fields, "linear_value_head_dim"),
        conv_width=_whole(fields, "linear_conv_kernel_dim", 4),
        full_attention=_layer_kinds(fields),
        eps=_real(fields, "rms_norm_eps", 1e-6),
        tied=bool(fields["tie_word_embeddings"]),
        n_ctx_train=_whole(fields, "max_position_embeddings", 32768),
        **experts,
    )


def _tied(tree: Mapping[str, Any], nested: Mapping[str, Any]) -> bool:
    """A multimodal checkpoint may say it at either level."""
    return bool(nested.get("tie_word_embeddings", tree.get("tie_word_embeddings", False)))


def _refuse_other_arithmetic(fields: Mapping[str, Any]) -> None:
    """What would change the formulas is refused, never ignored."""
    wanted = {"hidden_act": "silu", "attention_bias": False, "attn_output_gate": True}
    for name, value in wanted.items():
        if fields.get(name, value) != value:
            raise InputError(f"{name} is {fields[name]!r}; this reference computes {value!r} only")


def _rope(fields: Mapping[str, Any]) -> dict[str, Any]:
    rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise InputError("rope_parameters is no object")
    kind = rope.get("rope_type", "default")
    if kind != "default":
        raise InputError(f"rope_type {kind!r}; this reference computes 'default' only")
    flat = {name: fields[name] for name in ROPE_DEFAULTS if fields.get(name) is not None}
    return {**flat, **rope}


def _layer_kinds(fields: Mapping[str, Any]) -> tuple[bool, ...]:
    n_layers = _whole(fields, "num_hidden_layers")
    if not 1 <= n_layers <= LAYERS_MAX:
        raise InputError(f"num_hidden_layers={n_layers}; expected 1 to {LAYERS_MAX}")
    kinds = fields.get("layer_types")
    if kinds is None:
        interval = _whole(fields, "full_attention_interval", 4)
        _in_range("full_attention_interval", interval)
        return tuple((i + 1) % interval == 0 for i in range(n_layers))
    known = ("full_attention", "linear_attention")
    if not isinstance(kinds, list) or len(kinds) != n_layers or set(kinds) - set(known):
        raise InputError(f"layer_types: expected {n_layers} of {' or '.join(known)}")
    return tuple(kind == "full_attention" for kind in kinds)


def _whole(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} is {value!r}; expected a whole number")
    return value


def _real(fields: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{name} is {value!r}; expected a positive number")
    if not math.isfinite(value):
        raise InputError(f"{name} is {value!r}; expected a finite number")
    return float(value)


def _in_range(name: str, value: int) -> None:
    if not 1 <= value <= SIZE_MAX:
        raise InputError(f"{name}={value}; expected 1 to {SIZE_MAX}")


def _multiple(name: str, value: int, of: str, unit: int) -> None:
    if value % unit:
        raise InputError(f"{name}={value}; expected a multiple of {of}={unit}")
