"""Which tensors a model has, how they are stored, and a check of one against the other.

Names are those of the family's safetensors files without their prefix; linear weights are
[out, in].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfire.errors import InputError
from hotfire.ref.formats import Array, Bytes, named
from hotfire.ref.models.config import Config

DTYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")
"""What a weight may be stored as."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A weight as it lies in a file.

    Args:
        dtype: one of `DTYPES`, or f64 for values that were computed from stored ones.
        shape: outermost axis first.
        data: its bytes; may be mapped, and is decoded only on demand.
    """

    dtype: str
    shape: Shape
    data: Bytes

    def values(self) -> Array:
        """The weights, float64, exact."""
        plain = {"f16": "<f2", "f64": "<f8"}.get(self.dtype)
        if plain:
            numbers = np.ascontiguousarray(self.data).view(plain)
            return numbers.astype(np.float64).reshape(self.shape)
        return named(self.dtype).decode(np.ascontiguousarray(self.data), self.shape)


def encode(values: NDArray[Any], dtype: str) -> Tensor:
    """Stores weights as `dtype`, one of `DTYPES`.

    Raises:
        InputError: if the dtype is not known, or rows do not divide into its blocks.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r} is not known; expected one of {', '.join(DTYPES)}")
    if dtype == "f16":
        with np.errstate(over="ignore"):
            half = np.ascontiguousarray(values, dtype=np.float32).astype("<f2")
        return Tensor(dtype, values.shape, half.reshape(-1).view(np.uint8))
    return Tensor(dtype, values.shape, named(dtype).encode(values))


def derived(values: Array) -> Tensor:
    """Values that were computed from stored ones, kept in float64."""
    flat = np.ascontiguousarray(values, dtype="<f8").reshape(-1)
    return Tensor("f64", values.shape, flat.view(np.uint8))


def n_bytes(dtype: str, shape: Shape) -> int:
    """Bytes that a tensor takes, in whole numbers of any size.

    Raises:
        InputError: if rows do not divide into the dtype's blocks.
    """
    if dtype == "f16":
        return 2 * math.prod(shape)
    form = named(dtype)
    if shape and shape[-1] % form.block_len:
        raise InputError(f"{dtype} rows of {shape[-1]}; expected a multiple of {form.block_len}")
    return math.prod(shape) // form.block_len * form.block_size


def shapes(config: Config) -> dict[str, Shape]:
    """Name -> shape of every weight of a model, in the order of its layers."""
    found: dict[str, Shape] = {"embed_tokens.weight": (config.n_vocab, config.n_embd)}
    for layer, is_full in enumerate(config.full_attention):
        parts: dict[str, Shape] = {"input_layernorm.weight": (config.n_embd,)}
        parts |= dict(_attention(config) if is_full else _delta_net(config))
        parts["post_attention_layernorm.weight"] = (config.n_embd,)
        parts |= dict(_experts(config) if config.n_experts else _mlp("mlp", config, config.n_ff))
        found |= {f"layers.{layer}.{name}": shape for name, shape in parts.items()}
    found["norm.weight"] = (config.n_embd,)
    if not config.tied:
        found["lm_head.weight"] = (config.n_vocab, config.n_embd)
    return found


def _attention(config: Config) -> Iterator[tuple[str, Shape]]:
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    yield "self_attn.q_proj.weight", (2 * q, config.n_embd)
    yield "self_attn.k_proj.weight", (kv, config.n_embd)
    yield "self_attn.v_proj.weight", (kv, config.n_embd)
    yield "self_attn.o_proj.weight", (config.n_embd, q)
    yield "self_attn.q_norm.weight", (config.head_dim,)
    yield "self_attn.k_norm.weight", (config.head_dim,)


def _delta_net(config: Config) -> Iterator[tuple[str, Shape]]:
    heads, v = config.n_value_heads, config.n_value_heads * config.value_dim
    yield "linear_attn.in_proj_qkv.weight", (config.n_conv, config.n_embd)
    yield "linear_attn.in_proj_z.weight", (v, config.n_embd)
    yield "linear_attn.in_proj_b.weight", (heads, config.n_embd)
    yield "linear_attn.in_proj_a.weight", (heads, config.n_embd)
    yield "linear_attn.conv1d.weight", (config.n_conv, 1, config.conv_width)
    yield "linear_attn.A_log", (heads,)
    yield "linear_attn.dt_bias", (heads,)
    yield "linear_attn.norm.weight", (config.value_dim,)
    yield "linear_attn.out_proj.weight", (config.n_embd, v)


def _mlp(name: str, config: Config, n_ff: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.gate_proj.weight", (n_ff, config.n_embd)
    yield f"{name}.up_proj.weight", (n_ff, config.n_embd)
    yield f"{name}.down_proj.weight", (config.n_embd, n_ff)


def _experts(config: Config) -> Iterator[tuple[str, Shape]]:
    n, n_ff = config.n_experts, config.n_ff_expert
    yield "mlp.gate.weight", (n, config.n_embd)
    yield "mlp.experts.gate_up_proj", (n, 2 * n_ff, config.n_embd)
    yield "mlp.experts.down_proj", (n, config.n_embd, n_ff)
    yield from _mlp("mlp.shared_expert", config, config.n_ff_shared)
    yield "mlp.shared_expert_gate.weight", (1, config.n_embd)


def check(config: Config, found: Mapping[str, Shape], source: str) -> None:
    """Asks a file's tensors to be those of the model.

    Raises:
        InputError: naming the first that is missing or of another shape.
    """
    for name, shape in shapes(config).items():
        if name not in found:
            raise InputError(f"{source} lacks the tensor {name} {list(shape)}")
        if found[name] != shape:
            raise InputError(
                f"{source}: tensor {name} has shape {list(found[name])}; the configuration says "
                f"{list(shape)}"
            )
