"""The benchmark of operations: every one has a shape, and a run prints each variant."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotfire.ref.registry import operation, operations


@pytest.fixture
def bench(monkeypatch):
    """The module, which is a script beside others."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "ci/bench")
    import operations as module

    yield module
    sys.modules.pop("operations")


def test_every_operation_has_a_shape(bench):
    """One that its spec takes, with every axis but the gaps named."""
    assert set(bench.SHAPES) == set(operations())
    for name, shapes in bench.SHAPES.items():
        axes = {axis.name for axis in operation(name).axes if not axis.gap}
        for shape in shapes:
            assert set(shape) == axes
            assert bench.case_of(operation(name), shape).sizes.items() >= shape.items()


def test_a_run_prints_each_variant(bench):
    """With its ratio to the first."""
    done = CliRunner().invoke(bench.main, ["gated_delta_gates", "--rounds", "1"])
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()[2:]]
    assert lines[0][:2] == ["gated_delta_gates", "scalar"]
    assert lines[0][3] == "1.00"
    assert all(line[-1] == "n_tokens=512,n_heads=16" for line in lines)
