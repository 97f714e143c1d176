"""Every alarm rings: each mutant of each kernel is found at the quick profile."""

from collections import Counter

import pytest

from hotfire.props.mutants import hunt, mutants
from hotfire.ref.registry import operations
from hotfire.verdict import Status


def test_every_kernel_has_at_least_eight_mutants():
    """Of our CPU kernels."""
    count = Counter(each.operation for each in mutants() if each.library == "hotfire-mutants")
    assert set(count) == set(operations())
    assert min(count.values()) >= 8


@pytest.mark.parametrize("mutant", mutants(), ids=lambda each: each.name)
def test_the_mutant_is_found(mutant, runner_for):
    """Killed, with the property and the number of examples that it took."""
    verdict = hunt(mutant, runner=runner_for(mutant))
    assert verdict.status is Status.PASSED, verdict.findings
    assert verdict.measurements["n_examples"] >= 1
    assert verdict.measurements["property"]


def test_a_mutant_that_no_property_sees_is_reported(monkeypatch):
    """The canary of the hunt itself: without properties, nothing is found, and that fails."""
    monkeypatch.setattr("hotfire.props.mutants.PROPERTIES", ())
    verdict = hunt(mutants()[0])
    assert verdict.status is Status.FAILED
    assert verdict.findings[0].rule == "mutant_survives"
