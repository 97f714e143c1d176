"""Hypothesis drives every kernel through the same properties, and shrinks what it finds."""

import pytest

from hotfire.errors import InputError
from hotfire.props.execute import Broken, Subject
from hotfire.props.given import holds, property_named
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.ref.registry import operation, operations


@pytest.fixture(scope="module")
def runner():
    """Our library, one worker for all."""
    with Runner("hotfire") as worker:
        yield worker


@pytest.mark.parametrize("name", operations())
def test_every_kernel_holds_its_properties(runner, name):
    """The widest variant of each kernel, a few Hypothesis examples a property."""
    kernels = [each for each in runner.kernels if each.operation == name and not each.unavailable]
    subject = Subject(runner, kernels[-1], operation(name))
    for stated in PROPERTIES:
        if stated.applies(subject):
            holds(subject, stated, max_examples=max(2, round(10 * stated.share)))


def test_hypothesis_finds_a_mutant():
    """The canary: a dropped last element does not pass."""
    with Runner("hotfire-mutants:softmax_short_sum") as worker:
        kernel = next(each for each in worker.kernels if each.operation == "softmax")
        subject = Subject(worker, kernel, operation("softmax"))
        with pytest.raises(Broken, match="want"):
            holds(subject, property_named("agrees_with_reference"))


def test_an_unknown_property_is_one_clear_error():
    """The message lists what there is."""
    with pytest.raises(InputError, match="agrees_with_reference"):
        property_named("is_nice")
