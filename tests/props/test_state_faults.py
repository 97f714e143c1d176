"""Faults of state in our kernels: each is found, named, and within ten seconds."""

from random import Random

import numpy as np
import pytest

from hotfire.props.chunks import LANDMARKS, chunk_ends
from hotfire.props.mutants import hunt, mutants
from hotfire.props.state_faults import STATE_FAULTS, state_faults
from hotfire.verdict import Status


@pytest.mark.parametrize(("mutant", "stated"), state_faults(), ids=STATE_FAULTS)
def test_the_fault_is_named_within_ten_seconds(mutant, stated, runner_for):
    """By the one property that says what went wrong, and as that."""
    verdict = hunt(mutant, runner=runner_for(mutant), only=stated)
    assert verdict.status is Status.PASSED, verdict.findings
    assert verdict.measurements["rule"] == stated
    assert verdict.measurements["seconds"] < 10


def test_a_property_that_does_not_speak_of_the_fault_does_not_find_it(runner_for):
    """The canary: hunted by one property alone, it is no other that finds it."""
    mutant = next(each for each in mutants() if each.name == "attention_f32_key_dropped_at_14080")
    verdict = hunt(mutant, runner=runner_for(mutant), only="cuts_are_invisible")
    assert verdict.status is Status.FAILED
    assert "not found by cuts_are_invisible" in verdict.findings[0].message


def test_long_sequences_are_cut_at_every_landmark():
    """Whenever the chunks differ in size; and every cut is a cut of all tokens."""
    n_mixed = 0
    for seed in range(40):
        ends = chunk_ends(Random(seed), 600)
        sizes = np.diff([0, *ends])
        assert ends[-1] == 600
        assert (sizes > 0).all()
        n_mixed += set(LANDMARKS) <= set(sizes)
    assert 10 < n_mixed < 30
