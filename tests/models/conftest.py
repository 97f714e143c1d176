"""Small models that several tests share, and the second opinion on them."""

import numpy as np
import pytest

from hotfire.ref.models import probe
from hotfire.ref.models.model import Model

SMALL = {"n_layers": 4, "n_embd": 64, "n_vocab": 128}
MOE = {**SMALL, "n_experts": 4}


@pytest.fixture(scope="session", params=["dense", "moe"])
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def config(kind):
    return probe.config(MOE if kind == "moe" else SMALL)


@pytest.fixture(scope="session")
def weights(config):
    return probe.weights(config, seed=3)


@pytest.fixture(scope="session")
def model(config, weights):
    return Model(config, weights, "probe")


@pytest.fixture(scope="session")
def tokens(config):
    return np.random.default_rng(5).integers(0, config.n_vocab, 150).tolist()
