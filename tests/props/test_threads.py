"""Results are the same to the bit on any number of threads: every kernel, over drawn cases."""

from random import Random

import numpy as np
import pytest

from hotfire.props.case import draw_inputs
from hotfire.props.execute import Subject, execute
from hotfire.props.runner import Runner
from hotfire.props.strategies import cases
from hotfire.ref.registry import operation, operations

THREADS = (2, 3, 7)
N_CASES = 4


@pytest.fixture(scope="module")
def results():
    """What every variant of an operation writes on a provider, for the same drawn cases."""
    runners = {}

    def run(provider, name):
        runner = runners.setdefault(provider, Runner(provider))
        op, rng = operation(name), Random(5)
        drawn = [cases(op, smallest=1)(rng) for _ in range(N_CASES)]
        written = {}
        for kernel in runner.kernels:
            if kernel.operation != name or kernel.unavailable:
                continue
            subject = Subject(runner, kernel, op)
            for index, case in enumerate(drawn):
                inputs = draw_inputs(op, case)
                written[kernel.variant, index] = execute(
                    subject, case, inputs.stored, inputs.scalars
                )
        return written

    yield run
    for runner in runners.values():
        runner.close()


def differing(got, want):
    """The variants and cases whose outputs are not the same bytes."""
    return [
        key
        for key, outputs in want.items()
        if not all(np.array_equal(got[key][name], outputs[name]) for name in outputs)
    ]


@pytest.mark.parametrize("name", sorted(operations()))
def test_results_do_not_depend_on_the_threads(results, name):
    """The shipped library on one thread against parts as small as they get."""
    want = results("hotfire", name)
    assert want
    for n_threads in THREADS:
        assert not differing(results(f"hotfire-threads:{n_threads}", name), want)


def test_a_part_that_is_left_out_is_seen(results):
    """The canary: the last part of a split call is not computed."""
    want = results("hotfire", "matvec_f32")
    assert differing(results("hotfire-mutants:matvec_f32_last_part_dropped", "matvec_f32"), want)
