"""Opens a model by name: `probe`, `nano`, a folder of safetensors, or a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hotfire.errors import InputError
from hotfire.ref.models import config as configs
from hotfire.ref.models import gguf_file, probe, safetensors
from hotfire.ref.models.config import Config
from hotfire.ref.models.tensors import Tensor, check

PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.")
"""What the family's checkpoints put before a tensor's name, multimodal ones first."""
NANO = Path(__file__).with_name("nano")
"""The trained model that comes with the package."""


def locate(name: str) -> Path:
    """Where a model's files are: `nano` is the package's own, anything else a path."""
    return NANO if name == "nano" else Path(name)


def load(name: str, sizes: Mapping[str, int] | None = None) -> tuple[Config, dict[str, Tensor]]:
    """A model's configuration and weights, by the names of `tensors.shapes`.

    Args:
        name: `probe`, `nano`, the path of a folder, or that of a .gguf file.
        sizes: for a probe: `seed`, and sizes as `probe.SIZES` names them.

    Raises:
        InputError: if there is no such model, or its files cannot be used.
    """
    if name == "probe":
        asked = dict(sizes or {})
        seed = asked.pop("seed", 0)
        config = probe.config(asked)
        return config, probe.weights(config, seed)
    if sizes:
        raise InputError(f"{next(iter(sizes))}: only a probe can be made at any size")
    path = locate(name)
    if name and path.is_dir():
        return load_folder(path)
    if not path.is_file():
        raise InputError(f"no model {name!r}: expected `probe`, `nano`, a folder or a .gguf file")
    config, weights, _ = gguf_file.read(path)
    return config, weights


def load_folder(folder: Path) -> tuple[Config, dict[str, Tensor]]:
    """A checkpoint as the family publishes it: config.json and safetensors.

    Tested with what transformers writes, not with published weights, which cannot be had here.
    """
    source = folder / "config.json"
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source} cannot be read: {error}") from None
    config = configs.from_json(text, str(source))
    stored = {_bare(name): tensor for name, tensor in safetensors.read_folder(folder).items()}
    stored |= _fused(config, stored)
    check(config, {name: tensor.shape for name, tensor in stored.items()}, str(folder))
    return config, stored


_FUSED = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def _fused(config: Config, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All experts of a layer in one tensor, from checkpoints that have one tensor an expert."""
    found: dict[str, Tensor] = {}
    for layer in range(config.n_layers if config.n_experts else 0):
        prefix = f"layers.{layer}.mlp.experts."
        if f"{prefix}0.gate_proj.weight" not in stored:
            continue
        for fused, parts in _FUSED.items():
            names = [
                f"{prefix}{expert}.{part}.weight"
                for expert in range(config.n_experts)
                for part in parts
            ]
            found[prefix + fused] = _stacked(stored, names, config.n_experts)
    return found


def _stacked(stored: Mapping[str, Tensor], names: list[str], n_experts: int) -> Tensor:
    """[n_experts, rows, columns] from matrices one after another."""
    missing = next((name for name in names if name not in stored), None)
    if missing:
        raise InputError(f"the checkpoint lacks the tensor {missing}")
    parts = [stored[name] for name in names]
    kinds = {(len(part.shape), part.dtype, part.shape[-1:]) for part in parts}
    n_rows = sum(part.shape[0] if part.shape else 0 for part in parts)
    if len(kinds) != 1 or len(parts[0].shape) != 2 or n_rows % n_experts:
        raise InputError(f"{names[0]} and the other experts differ in dtype or shape")
    shape = (n_experts, n_rows // n_experts, parts[0].shape[1])
    return Tensor(parts[0].dtype, shape, np.concatenate([part.data for part in parts]))


def _bare(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def save_folder(folder: Path, config: Config, weights: Mapping[str, Tensor]) -> None:
    """Writes config.json and model.safetensors as `transformers` reads them."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_json(), indent=1) + "\n")
    named = {
        name if name == "lm_head.weight" else f"model.{name}": weights[name] for name in weights
    }
    safetensors.write(folder / "model.safetensors", named)
