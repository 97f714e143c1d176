"""`probe` models: random, from a seed, at any size, sharp to every fault of the state.

Every projection is scaled so that activations are of order 1 at any width, and each Gated
DeltaNet head has a half-life drawn log-uniform from 1 to 4096 tokens: with fast gates or small
weights a lost state does not move the logits, and a wrong engine passes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.formats import Array
from hotfire.ref.models.config import Config
from hotfire.ref.models.tensors import Shape, Tensor, encode, shapes
from hotfire.ref.sequences import HALF_LIFE_MAX

LOGIT_SCALE = 3.0
"""Standard deviation of the logits: greedy tokens are neither certain nor all tied."""

SIZES = {
    "n_layers": 8,
    "n_embd": 64,
    "n_vocab": 256,
    "n_ff": 128,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 32,
    "n_key_heads": 2,
    "n_value_heads": 4,
    "key_dim": 16,
    "value_dim": 16,
    "n_experts": 0,
    "n_experts_used": 2,
    "n_ff_expert": 64,
    "n_ff_shared": 64,
    "interval": 4,
    "tied": 0,
}
"""What can be asked of a probe, and what it is if not asked."""


def config(sizes: Mapping[str, int]) -> Config:
    """The configuration of a probe; sizes that are not given are those of `SIZES`.

    Raises:
        InputError: if a size is not known or absurd.
    """
    unknown = sorted(set(sizes) - set(SIZES))
    if unknown:
        raise InputError(f"probe has no {unknown[0]!r}; expected one of {', '.join(SIZES)}")
    full = {**SIZES, **sizes}
    interval, tied = full.pop("interval"), bool(full.pop("tied"))
    n_layers = full.pop("n_layers")
    if not 1 <= n_layers <= 1024 or interval < 1:
        raise InputError(f"n_layers={n_layers}, interval={interval}; expected 1 to 1024, >= 1")
    if full["n_experts"]:
        full["n_ff"] = 0
    else:
        for name in ("n_experts_used", "n_ff_expert", "n_ff_shared"):
            full[name] = 0
    return Config(
        **full,
        n_rot=max(2, full["head_dim"] // 8 * 2),
        full_attention=tuple((i + 1) % interval == 0 for i in range(n_layers)),
        tied=tied,
    )


def weights(config: Config, seed: int, dtype: str = "f32") -> dict[str, Tensor]:
    """Random weights; each depends on the seed, its name and its shape only.

    Args:
        config: the sizes.
        seed: not negative.
        dtype: f32, f16 or bf16; A_log and dt_bias stay f32, as in the family's checkpoints.
    """
    if seed < 0:
        raise InputError(f"seed={seed}; expected a number >= 0")
    return {
        name: encode(
            _draw(config, name, shape, seed),
            "f32" if name.endswith(("A_log", "dt_bias")) else dtype,
        )
        for name, shape in shapes(config).items()
    }


def _draw(config: Config, name: str, shape: Shape, seed: int) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name.endswith("dt_bias"):
        return rng.uniform(-1, 1, shape)
    if name.endswith("A_log"):
        return _gates(config, name, seed)
    if name.endswith("linear_attn.norm.weight"):
        return rng.normal(1, 0.2, shape)
    if name.endswith("norm.weight"):
        return np.round(rng.normal(0, 0.2, shape) * 4096) / 4096  # 1 + w is exact in f32
    if name == "embed_tokens.weight":
        scale = LOGIT_SCALE / np.sqrt(config.n_embd) if config.tied else 1.0
        return rng.normal(0, scale, shape)
    gain = {"lm_head.weight": LOGIT_SCALE}.get(name, 0.5 if "in_proj_a" in name else 1.0)
    return rng.normal(0, gain / np.sqrt(shape[-1]), shape)


def _gates(config: Config, name: str, seed: int) -> Array:
    """A_log such that the half-life at a = 0, ln 2 / (exp(A_log) softplus(dt_bias)), is
    log-uniform.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    half_life = np.exp(rng.uniform(0, np.log(HALF_LIFE_MAX), config.n_value_heads))
    bias = _draw(config, name.replace("A_log", "dt_bias"), (config.n_value_heads,), seed)
    rates: Array = np.log(2) / half_life / np.logaddexp(0, bias)
    return np.log(rates)
