"""A model as llama.cpp stores it (arch `qwen35`, `qwen35moe`), both ways.

Compared with llama.cpp's converter (conversion/qwen.py, conversion/base.py): norm weights carry
the 1, ssm_a is -exp(A_log), the convolution has no middle axis, gate and up experts are two
tensors, and the value heads of the Gated DeltaNet, which the family groups by key head
(k0: v0 v1, k1: v2 v3), are tiled (v0 v2 v1 v3), so that a broadcast replaces the repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Array
from hotfire.ref.models import container
from hotfire.ref.models.config import MROPE_SECTION, Config
from hotfire.ref.models.container import Container
from hotfire.ref.models.tensors import Tensor, derived, encode, shapes
from hotfire.ref.models.vocabulary import Vocabulary, to_fields

ARCHES = {"qwen35": False, "qwen35moe": True}
FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}

_WHOLE = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_IN_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
}
_EXPERTS = "mlp.experts.gate_up_proj"
_EXPERT_HALVES = ("ffn_gate_exps.weight", "ffn_up_exps.weight")
_ALWAYS_F32 = ("ssm_conv1d.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")
_HEADS_AXIS = {"linear_attn.in_proj_qkv.weight": 0, "linear_attn.in_proj_z.weight": 0,
           "linear_attn.in_proj_b.weight": 0, "linear_attn.in_proj_a.weight": 0,
           "linear_attn.conv1d.weight": 0, "linear_attn.A_log": 0, "linear_attn.dt_bias": 0,
           "linear_attn.out_proj.weight": 1}  # fmt: skip
"""Weights with value heads -> the axis along which those lie."""


def gguf_names(name: str) -> tuple[str, ...]:
    """The names in GGUF of one of the family's tensors: one, or two for gate and up experts."""
    if name in _WHOLE:
        return (_WHOLE[name],)
    _, layer, rest = name.split(".", 2)
    own = _EXPERT_HALVES if rest == _EXPERTS else (_IN_LAYER[rest],)
    return tuple(f"blk.{layer}.{each}" for each in own)


def _in_layer(name: str) -> str:
    return name if name in _WHOLE else name.split(".", 2)[2]


def _value_heads(values: Array, name: str, config: Config, to_tiled: bool) -> Array:
    """Reorders the value heads of a tensor that has them."""
    own = _in_layer(name)
    if own not in _HEADS_AXIS:
        return values
    axis, n_k = _HEADS_AXIS[own], config.n_key_heads
    per_k = config.n_value_heads // n_k
    n_all = values.shape[axis]
    with_qk = own in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight")
    n_qk = 2 * n_k * config.key_dim if with_qk else 0
    order = np.arange(n_all - n_qk).reshape(*((n_k, per_k) if to_tiled else (per_k, n_k)), -1)
    rest = n_qk + order.swapaxes(0, 1).reshape(-1)
    return np.take(values, np.concatenate([np.arange(n_qk), rest]), axis=axis)


def to_gguf(name: str, values: Array, config: Config) -> Iterator[tuple[str, Array]]:
    """One of the family's tensors as GGUF has it: names and values, f32 arithmetic."""
    values = _value_heads(values, name, config, to_tiled=True)
    own, names = _in_layer(name), gguf_names(name)
    if own == _EXPERTS:
        yield from zip(names, np.split(values, 2, axis=1), strict=True)
        return
    if own == "linear_attn.A_log":
        values = -np.exp(values)
    elif own.endswith("norm.weight") and own != "linear_attn.norm.weight":
        values = (values.astype(np.float32) + np.float32(1)).astype(np.float64)
    elif own == "linear_attn.conv1d.weight":
        values = values[:, 0]
    yield names[0], values


def from_gguf(name: str, parts: list[Array], config: Config) -> Array:
    """The inverse of `to_gguf`, float64."""
    own, shape = _in_layer(name), shapes(config)[name]
    for each, part in zip(gguf_names(name), parts, strict=True):
        if part.size * len(parts) != math.prod(shape):
            raise InputError(f"{each} has shape {list(part.shape)}; the fields say {list(shape)}")
    if own == _EXPERTS:
        half = (config.n_experts, config.n_ff_expert, config.n_embd)
        parts = [np.concatenate([part.reshape(half) for part in parts], axis=1)]
    values = parts[0]
    if own == "linear_attn.A_log":
        if not (values < 0).all():
            raise InputError(f"{gguf_names(name)[0]} has values that are not negative")
        values = np.log(-values)
    elif own.endswith("norm.weight") and own != "linear_attn.norm.weight":
        values = values - 1
    return _value_heads(values.reshape(shape), name, config, to_tiled=False)


def read(path: Path) -> tuple[Config, dict[str, Tensor], Container]:
    """A model: its configuration, its weights by the family's names, and the whole container.

    Quantised and plain weights stay as stored where GGUF only renames them.

    Raises:
        InputError: if the file is damaged, of another architecture, or lacks a tensor.
    """
    file = container.read(path)
    try:
        config = _config(file)
        weights: dict[str, Tensor] = {}
        for name, shape in shapes(config).items():
            parts = [_part(file, each) for each in gguf_names(name)]
            stays = (
                len(parts) == 1 and parts[0].shape == shape and _in_layer(name) not in _HEADS_AXIS
            )
            if stays and "norm" not in name:
                weights[name] = parts[0]
            else:
                values = from_gguf(name, [part.values() for part in parts], config)
                weights[name] = derived(values)
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    return config, weights, file


def outline(path: Path) -> tuple[Config, str]:
    """A model's configuration, and the dtype of its first layer's MLP, without its weights."""
    file = container.read(path)
    try:
        first = "ffn_down_exps.weight" if "blk.0.ffn_down_exps.weight" in file.tensors else ""
        return _config(file), _part(file, f"blk.0.{first or 'ffn_down.weight'}").dtype
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _part(file: Container, name: str) -> Tensor:
    if name not in file.tensors:
        raise InputError(f"it lacks the tensor {name}")
    return file.tensors[name]


def _config(file: Container) -> Config:
    arch = file.fields.get("general.architecture")
    if arch not in ARCHES:
        raise InputError(f"architecture {arch!r}; expected one of {', '.join(ARCHES)}")

    def whole(key: str, default: int | None = None) -> int:
        value = file.fields.get(f"{arch}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"field {arch}.{key} is {value!r}; expected a whole number")
        return value

    def real(key: str) -> float:
        value = file.fields.get(f"{arch}.{key}")
        if not isinstance(value, float) or not 0 < value < np.inf:
            raise InputError(f"field {arch}.{key} is {value!r}; expected a positive number")
        return float(f"{value:.7g}")  # f32 in the file; the family's config has few digits

    n_layers = whole("block_count") - whole("nextn_predict_layers", 0)
    n_value_heads, key_dim = whole("ssm.time_step_rank"), whole("ssm.state_size")
    if whole("ssm.inner_size") != n_value_heads * key_dim:
        raise InputError(f"{arch}.ssm.inner_size does not follow from state_size and rank")
    moe = ARCHES[str(arch)]
    return Config(
        n_vocab=next(iter(_part(file, "token_embd.weight").shape), 0),
        n_embd=whole("embedding_length"),
        n_ff=0 if moe else whole("feed_forward_length"),
        n_heads=whole("attention.head_count"),
        n_kv_heads=whole("attention.head_count_kv"),
        head_dim=whole("attention.key_length"),
        n_rot=whole("rope.dimension_count"),
        rope_theta=real("rope.freq_base"),
        n_key_heads=whole("ssm.group_count"),
        n_value_heads=n_value_heads,
        key_dim=key_dim,
        value_dim=key_dim,
        conv_width=whole("ssm.conv_kernel"),
        full_attention=_layer_kinds(file, str(arch), n_layers, whole("full_attention_interval", 4)),
        eps=real("attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.tensors,
        n_experts=whole("expert_count") if moe else 0,
        n_experts_used=whole("expert_used_count") if moe else 0,
        n_ff_expert=whole("expert_feed_forward_length") if moe else 0,
        n_ff_shared=whole("expert_shared_feed_forward_length") if moe else 0,
        n_ctx_train=whole("context_length"),
    )


def _layer_kinds(file: Container, arch: str, n_layers: int, interval: int) -> tuple[bool, ...]:
    if not 1 <= n_layers <= 1024 or interval < 1:
        raise InputError(f"{n_layers} layers, full attention every {interval}")
    listed = file.fields.get(f"{arch}.attention.recurrent_layers")
    if listed is None:
        return tuple((i + 1) % interval == 0 for i in range(n_layers))
    if not isinstance(listed, list) or len(listed) < n_layers:
        raise InputError(f"{arch}.attention.recurrent_layers: expected {n_layers} of true or false")
    return tuple(not bool(each) for each in listed[:n_layers])


def write(
    path: Path,
    config: Config,
    weights: Mapping[str, Tensor],
    dtype: str,
    words: Vocabulary | None = None,
) -> None:
    """Writes a model as llama.cpp's converter stores it.

    Vectors, norms, routers and the convolution are always f32; rows that do not divide into the
    dtype's blocks become f16.

    Args:
        path: of the file.
        config: the model's sizes; key_dim must equal value_dim.
        weights: by the family's names.
        dtype: f32, f16, bf16, q8_0 or q4_0.
        words: the vocabulary; without one the model takes token ids only.
    """
    if dtype not in FILE_TYPES:
        raise InputError(f"dtype {dtype!r}; expected one of {', '.join(FILE_TYPES)}")
    if config.key_dim != config.value_dim:
        raise InputError(
            f"GGUF cannot say key_dim={config.key_dim} and value_dim={config.value_dim}; make them "
            "equal"
        )
    gguf = _gguf()
    writer = gguf.GGUFWriter(path, "qwen35moe" if config.n_experts else "qwen35")
    said = [("string", "tokenizer.ggml.model", "none")] if words is None else to_fields(words)
    for add, key, value in (*_fields(config, dtype), *said):
        getattr(writer, f"add_{add}")(key.format(arch=writer.arch), value)
    codes = {name: code for code, name in container.DTYPES.items()}
    for name in shapes(config):
        for own, values in to_gguf(name, weights[name].values(), config):
            stored = encode(values, _stored_as(own, values, dtype))
            rows = stored.data.reshape(*values.shape[:-1], -1)
            kind = gguf.GGMLQuantizationType(codes[stored.dtype])
            writer.add_tensor(own, _as_written(rows, stored.dtype), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _as_written(rows: Any, dtype: str) -> Any:
    """The writer reads the shape off the array: numbers for floats, bytes for blocks."""
    return rows.view({"f32": "<f4", "f16": "<f2"}.get(dtype, "u1"))


def _stored_as(name: str, values: Array, dtype: str) -> str:
    plain = values.ndim <= 1 or name.endswith("_norm.weight") or not name.endswith(".weight")
    if plain or name.endswith(_ALWAYS_F32):
        return "f32"
    return "f16" if dtype in ("q8_0", "q4_0") and values.shape[-1] % 32 else dtype


def _fields(config: Config, dtype: str) -> Iterator[tuple[str, str, Any]]:
    whole = {
        "vocab_size": config.n_vocab,
        "block_count": config.n_layers,
        "context_length": config.n_ctx_train,
        "embedding_length": config.n_embd,
        "feed_forward_length": config.n_ff or config.n_ff_shared,
        "attention.head_count": config.n_heads,
        "attention.head_count_kv": config.n_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "rope.dimension_count": config.n_rot,
        "ssm.conv_kernel": config.conv_width,
        "ssm.state_size": config.key_dim,
        "ssm.group_count": config.n_key_heads,
        "ssm.time_step_rank": config.n_value_heads,
        "ssm.inner_size": config.n_value_heads * config.value_dim,
    }
    if config.n_experts:
        whole |= {
            "expert_count": config.n_experts,
            "expert_used_count": config.n_experts_used,
            "expert_feed_forward_length": config.n_ff_expert,
            "expert_shared_feed_forward_length": config.n_ff_shared,
        }
    yield from (("uint32", "{arch}." + key, value) for key, value in whole.items())
    yield "float32", "{arch}.rope.freq_base", config.rope_theta
    yield "float32", "{arch}.attention.layer_norm_rms_epsilon", config.eps
    yield "array", "{arch}.rope.dimension_sections", [*MROPE_SECTION, 0]
    recurrent = [not full for full in config.full_attention]
    yield "array", "{arch}.attention.recurrent_layers", recurrent
    yield "uint32", "general.file_type", FILE_TYPES[dtype]


def _gguf() -> Any:
    """The package that writes the container.

    Raises:
        InputError: if it is not installed.
    """
    try:
        return import_module("gguf")
    except ImportError:
        raise InputError("writing GGUF needs `pip install 'hotfire[gguf]'`") from None
