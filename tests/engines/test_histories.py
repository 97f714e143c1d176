"""The hash engine against a few lines of its own; hash and numpy driven by a state machine."""

from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from hotfire.engines import open_engine
from hotfire.engines.hashing import mix
from hotfire.ref.models import load
from hotfire.ref.models.model import Model

from .machine import machine

N_VOCAB = 16


def test_mix_is_splitmix64():
    """The first output of splitmix64 from state 0, as published."""
    assert mix(0) == 0xE220A8397B1DCDAF


def test_next_tokens_are_spread():
    """Over 2,000 histories each of 16 ids wins about as often as the others."""
    wins = np.bincount([row([i % 16, i // 16]).argmax() for i in range(2000)], minlength=N_VOCAB)
    assert wins.min() > 80
    assert wins.max() < 175


def row(tokens):
    """The logits after a history, by another formula: no arrays."""
    state = mix(0)
    for token in tokens:
        state = mix(state ^ mix(token + 1))
    return np.array([(mix((state + v) % 2**64) >> 40) / 2**22 - 2 for v in range(N_VOCAB)])


Hashes = machine(lambda: open_engine("hash:n_vocab=16,n_ctx=24,n_seqs=4"), row, 0)
Hashes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHashes = Hashes.TestCase

TINY = "probe,n_layers=2,interval=2,n_embd=16,n_ff=32,n_vocab=16,n_ctx=24,n_seqs=4"


@cache
def tiny():
    config, weights = load.load("probe", {name: int(size) for name, size in sizes()})
    return Model(config, weights, "tiny")


def sizes():
    return (word.split("=") for word in TINY.split(",")[1:-2])


Floats = machine(
    lambda: open_engine(f"numpy:{TINY}"), lambda tokens: tiny().forward(tokens).logits[-1], 1e-10
)
Floats.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestFloats = Floats.TestCase


@pytest.mark.parametrize("fault", ["slot_not_cleared", "rollback_keeps_state", "conv_of_neighbour"])
def test_the_machine_rings(fault):
    """The canary: with a planted fault some order of calls fails."""
    faulty = machine(
        lambda: open_engine(f"numpy:{TINY},fault={fault}"),
        lambda tokens: tiny().forward(tokens).logits[-1],
        1e-10,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            faulty,
            settings=settings(
                max_examples=200,
                stateful_step_count=20,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                derandomize=True,
            ),
        )
