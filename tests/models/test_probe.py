"""Probes: the same from the same seed, and sharp: a lost state moves the logits."""

import numpy as np
import pytest

from hotfire.errors import InputError
from hotfire.ref.models import probe
from hotfire.ref.models.state import Recurrent, State


def test_a_seed_determines_a_probe(config):
    one, two = probe.weights(config, 3), probe.weights(config, 3)
    other = probe.weights(config, 4)
    assert all((one[name].data == two[name].data).all() for name in one)
    assert all((one[name].data != other[name].data).any() for name in one)


def test_half_lives_are_log_uniform():
    """ln 2 / (exp(A_log) softplus(dt_bias)), over 512 heads: quartiles of log2 near 3, 6, 9."""
    config = probe.config({"n_value_heads": 512, "n_layers": 1})
    weights = {name: each.values() for name, each in probe.weights(config, 0).items()}
    a_log, bias = (weights[f"layers.0.linear_attn.{name}"] for name in ("A_log", "dt_bias"))
    half_life = np.log(2) / (np.exp(a_log) * np.log1p(np.exp(bias)))
    assert half_life.min() > 0.99
    assert half_life.max() < 4097
    assert np.abs(np.quantile(np.log2(half_life), [0.25, 0.5, 0.75]) - [3, 6, 9]).max() < 0.6


def test_activations_are_of_order_one(model, tokens):
    out = model.forward(tokens, keep_hidden=True)
    assert 2 < out.logits.std() < 4
    assert all(0.5 < stream.std() < 4 for stream in out.hidden)


def test_a_lost_state_moves_the_logits(model, tokens):
    """S and the convolution's history, each zeroed after 100 tokens: over 3 % of the RMS at once,
    hundreds of times the bound of an f32 engine.
    """
    before = model.forward(tokens[:100]).state
    want = model.forward(tokens[100:101], before).logits
    for lost in ("s", "conv"):
        layers = tuple(
            Recurrent(**{**vars(layer), lost: getattr(layer, lost) * 0})
            if isinstance(layer, Recurrent)
            else layer
            for layer in before.layers
        )
        got = model.forward(tokens[100:101], State(before.n_past, layers)).logits
        assert np.abs(got - want).max() > 0.03 * np.sqrt(np.mean(want**2)), lost


@pytest.mark.parametrize("sizes", [{"n_embed": 4}, {"n_layers": 0}, {"n_embd": 2**30}])
def test_impossible_probes_are_refused(sizes):
    with pytest.raises(InputError):
        probe.config(sizes)
