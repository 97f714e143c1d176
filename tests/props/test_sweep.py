"""Kernels searched side by side give what they give one after another."""

from dataclasses import replace

import pytest

from hotfire.errors import InputError
from hotfire.props.runner import Runner
from hotfire.props.search import kernels_of
from hotfire.props.sweep import LEAST, check_kernels, n_jobs

NAMES = ("argmax", "l2_norm", "rms_norm", "silu", "softmax", "swiglu")

RAISES = """
from hotfire.props.provider import Kernel, Provider

def fail(call):
    raise ValueError("no such thing")

def provide(argument):
    kernels = [Kernel(operation="silu", variant=str(i), call=fail) for i in range(16)]
    return Provider(name="raises", version="1", kernels=kernels)
"""


def without_time(verdict):
    measured = {key: each for key, each in verdict.measurements.items() if key != "seconds"}
    return replace(verdict, measurements=measured)


def test_verdicts_are_the_same_in_the_same_order():
    """Two processes and one, cases and shapes included."""
    options = {"only": "refuses_mistakes", "seed": 5}
    with Runner("hotfire") as runner:
        kernels = list(kernels_of(runner, NAMES))
        assert len(kernels) >= 2 * LEAST
        alone, together = (
            [without_time(v) for v in check_kernels("hotfire", runner, kernels, jobs, **options)]
            for jobs in (1, 2)
        )
    assert together == alone
    assert all(each.measurements["n_cases"] for each in together)


def test_an_adapters_error_comes_through(tmp_path):
    """As the one clear error that it is, from another process too."""
    path = tmp_path / "raises.py"
    path.write_text(RAISES)
    with Runner(str(path)) as runner, pytest.raises(InputError, match="no such thing"):
        list(check_kernels(str(path), runner, runner.kernels, 2))


def test_kernels_on_a_device_take_turns():
    assert n_jobs("cuda:some.cubin") == 1
    assert n_jobs("hotfire") >= 1
