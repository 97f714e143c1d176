"""The float64 model against `transformers`, against itself cut otherwise, and its states."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hotfire.errors import InputError
from hotfire.ref.models import layers, load, state
from hotfire.ref.models.config import from_json
from hotfire.ref.models.model import Model

F32_BOUND = 4e-5
"""Of the logits' RMS. Seen: 1.2e-5 at 4 layers."""


@pytest.fixture(scope="module")
def theirs(config, weights, kind, tmp_path_factory):
    """The family's own class, reading what we wrote."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp(kind)
    load.save_folder(folder, config, weights)
    name = "Qwen3_5MoeForCausalLM" if config.n_experts else "Qwen3_5ForCausalLM"
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32)
    return lambda tokens: model(torch.tensor([tokens]), use_cache=False).logits[0].detach().numpy()


def test_agrees_with_transformers(model, theirs, tokens):
    """Every logit of 150 positions lies within the bound, and every greedy token is the same."""
    want, got = theirs(tokens), model.forward(tokens).logits
    scale = np.sqrt(np.mean(got**2, axis=1))
    assert (np.abs(want - got).max(axis=1) / scale).max() < F32_BOUND
    assert (want.argmax(axis=1) == got.argmax(axis=1)).all()


def test_a_wrong_formula_is_far_from_transformers(model, config, theirs, tokens):
    """The canary of the test above: RoPE over the whole head is 1,000 times the bound away."""
    wrong = Model(replace(config, n_rot=config.head_dim), _stored(model), "canary")
    want, got = theirs(tokens), wrong.forward(tokens).logits
    assert np.abs(want - got).max() / np.sqrt(np.mean(want**2)) > 1000 * F32_BOUND


def _stored(model):
    from hotfire.ref.models.tensors import derived

    return {name: derived(values) for name, values in model.weights.items()}


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_chunks_are_invisible(model, tokens, size):
    """Any cut gives the same logits and leaves the same state, to 1e-10."""
    whole = model.forward(tokens)
    parts, now = [], None
    for at in range(0, len(tokens), size):
        out = model.forward(tokens[at : at + size], now)
        parts.append(out.logits)
        now = out.state
    assert np.abs(np.concatenate(parts) - whole.logits).max() < 1e-10
    for one, other in zip(now.layers, whole.state.layers, strict=True):
        for name, value in vars(one).items():
            assert np.abs(value - getattr(other, name)).max() < 1e-10


def test_states_are_values(model, tokens):
    """Going on from a state leaves it as it was."""
    first = model.forward(tokens[:9]).state
    one = model.forward(tokens[9:20], first).logits
    model.forward(tokens[30:40], first)
    assert (model.forward(tokens[9:20], first).logits == one).all()


def test_a_saved_state_is_the_state(model, config, tokens):
    saved = state.to_bytes(model.forward(tokens[:9]).state)
    want = model.forward(tokens[9:20], model.forward(tokens[:9]).state).logits
    assert (model.forward(tokens[9:20], state.from_bytes(config, saved)).logits == want).all()


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_damaged_states_are_refused(model, config, tokens, cut):
    saved = state.to_bytes(model.forward(tokens[:9]).state)
    with pytest.raises(InputError, match="saved state"):
        state.from_bytes(config, saved[:cut])
    with pytest.raises(InputError, match="saved state"):
        state.from_bytes(replace(config, key_dim=config.key_dim * 2), saved)


@pytest.mark.parametrize("tokens", [[], [-1], [128], [2**40]])
def test_impossible_tokens_are_refused(model, tokens):
    with pytest.raises(InputError, match="tokens"):
        model.forward(tokens)


def test_the_delta_rule_by_hand():
    """Two tokens on one head of two dims, computed with pencil and paper."""
    one = np.ones((2, 1))
    q = k = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    v = np.array([[[2.0]], [[6.0]]])
    o, s = layers.delta_rule(q, k, v, np.log(0.5) * one, 0.5 * one, np.zeros((1, 2, 1)))
    # S = 0.5 * 2 = 1; then S = 0.5 + 0.5 * (6 - 0.5) = 3.25
    assert o[:, 0, 0].tolist() == [1.0, 3.25]
    assert s[0, :, 0].tolist() == [3.25, 0.0]


def test_the_router_by_hand():
    """Of equal logits the lower id is taken; the margin is relative to the logits' RMS."""
    routing = layers.route(np.array([[1.0, 2.0, 2.0, -1.0]]), 2)
    assert routing.experts.tolist() == [[1, 2]]
    assert routing.weights.tolist() == [[0.5, 0.5]]
    assert routing.margin[0] == pytest.approx(1 / np.sqrt(2.5))
    assert layers.route(np.array([[1.0, 2.0]]), 2).margin[0] == np.inf


def test_the_convolution_sees_the_past():
    """Tap 3 is the newest input: width 4, one channel."""
    u = np.array([[10.0], [20.0]])
    y, history = layers.causal_conv(
        u, np.array([[1.0], [2.0], [3.0]]), np.array([[1e-3, 0, 0, 1.0]])
    )
    want = np.array([10.001, 20.002])
    assert y[:, 0] == pytest.approx(want / (1 + np.exp(-want)))
    assert history[:, 0].tolist() == [3.0, 10.0, 20.0]


def test_the_configuration_survives_json(config):
    assert from_json(json.dumps(config.to_json()), "test") == config
    nested = {"model_type": "qwen3_5", "text_config": config.to_json()}
    if not config.n_experts:
        assert from_json(json.dumps(nested), "test") == config


def test_the_family_s_defaults():
    """The fields of a published config.json, as far as it names them."""
    fields = {
        "model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 1024,
        "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
        "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "full_attention_interval": 4, "tie_word_embeddings": True,
    }  # fmt: skip
    found = from_json(json.dumps(fields), "test")
    assert found.n_rot == 64
    assert [i for i, full in enumerate(found.full_attention) if full] == [3, 7, 11, 15, 19, 23]
    assert found.tied
    assert found.rope_theta == 1e7


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"model_type": "llama"}, "model_type"),
        ({"num_hidden_layers": 10**9, "layer_types": None}, "num_hidden_layers"),
        ({"hidden_size": 2**40}, "n_embd"),
        ({"hidden_size": True}, "hidden_size"),
        ({"head_dim": -4}, "head_dim"),
        ({"num_key_value_heads": 3}, "n_kv_heads"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type"),
        ({"rope_parameters": {"rope_theta": float("nan")}}, "rope_theta"),
        ({"layer_types": ["sliding"] * 4}, "layer_types"),
        ({"vocab_size": None}, "vocab_size"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps"),
    ],
)
def test_impossible_configurations_are_refused(config, change, says):
    with pytest.raises(InputError, match=says):
        from_json(json.dumps({**config.to_json(), **change}), "test")
