"""Crashes and hangs of our own mutants, on every variant that this machine has."""

from contextlib import suppress

import pytest

from hotfire.props.case import parse
from hotfire.props.execute import Broken, Subject
from hotfire.props.mutants import mutants
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.props.search import Search, check_kernel, search
from hotfire.ref.registry import operation, operations
from hotfire.verdict import Severity, Status

READS_PAST_END = [each for each in mutants() if each.name.endswith("reads_past_end")]


def test_every_operation_has_a_mutant_that_reads_past_its_end():
    """So that the next test covers the catalogue."""
    assert {each.operation for each in READS_PAST_END} == set(operations())


@pytest.mark.parametrize("mutant", READS_PAST_END, ids=lambda each: each.name)
def test_a_read_one_element_past_the_end_is_caught_on_every_variant(mutant, runner_for):
    """Scalar, AVX2, AVX-512 where there is one: each crashes at the guard page, and says where."""
    runner = runner_for(mutant)
    runner.select(mutant.name)
    kernels = [each for each in runner.kernels if each.operation == mutant.operation]
    available = [each for each in kernels if not each.unavailable]
    assert available
    exact = next(each for each in PROPERTIES if each.name == "exact_on_designed_inputs")
    for kernel in available:
        subject = Subject(runner, kernel, operation(mutant.operation))
        found = search(subject, exact, max_examples=60, seed=0)
        assert found.broken is not None, kernel.variant
        assert found.broken.status is Status.CRASHED
        assert found.broken.severity is Severity.MEMORY_UNSAFE
        assert "read 0 bytes past the end of" in found.broken.message
        assert any(mutant.operation in frame for frame in found.broken.stack)


def test_a_variant_runs_its_own_instruction_set():
    """A fault between vectors shows at the third column in scalar code, at the ninth in AVX2."""
    rms_norm = operation("rms_norm")
    exact = next(each for each in PROPERTIES if each.name == "exact_on_designed_inputs")
    with Runner("hotfire-mutants:rms_norm_weight_shifted") as runner:
        for kernel in runner.kernels:
            if kernel.operation != "rms_norm" or kernel.unavailable:
                continue
            width = {"scalar": 1, "avx2": 8, "avx512": 16}[kernel.variant]
            for n_embd, fails in ((width, False), (width + 1, True)):
                found = Search()
                with suppress(Broken):
                    case = parse(rms_norm, f"n_tokens=1,n_embd={n_embd},fill=exact")
                    found.run(Subject(runner, kernel, rms_norm), exact, case)
                assert (found.broken is not None) == fails, (kernel.variant, n_embd)


def test_a_hung_kernel_is_stopped_and_reported_with_its_stack():
    """The call is given up after its time-out; the stack names the function that never returned."""
    with Runner("hotfire-mutants:rms_norm_never_returns", seconds=0.3) as runner:
        kernel = next(each for each in runner.kernels if each.operation == "rms_norm")
        verdict = check_kernel(runner, kernel, only="exact_on_designed_inputs")
        assert verdict.status is Status.HUNG
        (found,) = verdict.findings
        assert "no answer within 0.3 s" in found.message
        assert "rms_norm" in found.message.split("\n", 1)[1]
        healthy = next(each for each in runner.kernels if each.operation == "softmax")
        assert check_kernel(runner, healthy).status is Status.PASSED


def test_a_crash_costs_milliseconds():
    """The next runner is forked, not started: 200 crashes end well within ten seconds."""
    with Runner("hotfire-mutants:softmax_reads_past_end") as runner:
        kernel = next(each for each in runner.kernels if each.operation == "softmax")
        place = runner.arena.place(0, 4096, "end")
        offsets = {"x": place.offset, "y": runner.arena.place(1, 4096, "end").offset}
        for _ in range(200):
            outcome = runner.call(kernel, offsets, {"n_rows": 1, "n_cols": 1024}, {})
            assert outcome.kind == "crashed"
