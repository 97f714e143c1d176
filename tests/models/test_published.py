"""A checkpoint in the published layout, written by transformers itself: images, text, nested."""

import json

import numpy as np
import pytest

from hotfire.errors import InputError
from hotfire.ref.models import load, probe, safetensors
from hotfire.ref.models.model import Model

VISION = {
    "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 64,
    "num_position_embeddings": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def published(kind, tmp_path_factory):
    """The multimodal class with random weights, saved in bf16, and its logits in f32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    moe = "Moe" if kind == "moe" else ""
    text = probe.config({"n_layers": 4, "n_vocab": 128, "n_experts": 4 if moe else 0}).to_json()
    config = getattr(transformers, f"Qwen3_5{moe}Config")(
        text_config={**text, "initializer_range": 0.15}, vision_config=VISION
    )
    cls = getattr(transformers, f"Qwen3_5{moe}ForConditionalGeneration")
    model = cls._from_config(config, dtype=torch.bfloat16)
    folder = tmp_path_factory.mktemp(f"published{moe}")
    model.save_pretrained(folder)
    again = cls.from_pretrained(folder, dtype=torch.float32)

    def logits(tokens):
        ids = torch.tensor([tokens])
        with torch.no_grad():
            return again(input_ids=ids, use_cache=False).logits[0].numpy()

    return folder, logits


def test_a_published_layout_is_read(published, tokens):
    """Prefixes, the nested configuration, weights in bf16, experts one by one, a vision tower.

    Its fast gates leave some outputs of a delta net near 0, which the norm enlarges: 8e-5 seen.
    """
    folder, logits = published
    assert "text_config" in json.loads((folder / "config.json").read_text())
    config, weights = load.load(str(folder))
    assert any("visual" in name for name in weights)
    assert {weights[name].dtype for name in ("embed_tokens.weight", "lm_head.weight")} == {"bf16"}
    want, got = logits(tokens), Model(config, weights, "published").forward(tokens).logits
    scale = np.sqrt(np.mean(want**2, axis=1))
    assert (np.abs(want - got).max(axis=1) / scale).max() < 3e-4


def test_a_missing_expert_is_named(published):
    folder, _ = published
    config, _ = load.load(str(folder))
    stored = safetensors.read_folder(folder)
    name = next((each for each in stored if ".experts.2.up_proj" in each), None)
    if name is None:
        return
    del stored[name]
    bare = {load._bare(each): tensor for each, tensor in stored.items()}
    with pytest.raises(InputError, match=r"experts\.2\.up_proj"):
        load._fused(config, bare)
