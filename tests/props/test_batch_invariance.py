"""By default results are the same to the bit however the work is cut: every operation, swept."""

from dataclasses import replace

import numpy as np
import pytest

from hotfire.props.case import Case, draw_inputs
from hotfire.props.chunks import CHUNKS, in_chunks
from hotfire.props.execute import Subject, execute
from hotfire.props.parts import divide, divisions, rows_of, select
from hotfire.props.runner import Runner
from hotfire.ref.operation import measure
from hotfire.ref.registry import operation, operations

COLUMNS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65)
SPLITS = (1, 2, 3, 7, 8, 16, 32, 100)
N_TOKENS = 130

INVARIANT = [op for op in operations().values() if op.batch_invariant]
INVARIANT_SEQUENCES = [op.name for op in INVARIANT if op.sequences]
INVARIANT_CUTS = [op.name for op in INVARIANT if any(axis.cut for axis in op.axes)]


@pytest.fixture(scope="module")
def subjects_of():
    """The kernels of an operation outside fast arithmetic that this machine can run."""
    with Runner("hotfire") as runner:

        def subjects(name):
            kernels = [each for each in runner.kernels if each.operation == name]
            able = [each for each in kernels if not each.fast and not each.unavailable]
            assert able
            return [Subject(runner, kernel, operation(name)) for kernel in able]

        yield subjects


def case_of(op, **wanted):
    """A rectangular case: 21 of what is not asked for where that is allowed, heads of 2 and 3."""
    sizes = {}
    for index, axis in enumerate(op.axes):
        usual = 2 + index % 2 if axis.name in ("n_seqs", "n_groups") or "heads" in axis.name else 21
        size = wanted.get(axis.name, usual)
        sizes[axis.name] = max(axis.least, -(-size // axis.multiple_of) * axis.multiple_of)
    for axis in op.axes:
        if axis.most:
            most = measure(axis.most, sizes) // axis.multiple_of * axis.multiple_of
            sizes[axis.name] = min(sizes[axis.name], most)
    op.check_sizes(sizes)
    scalars = {each.name: each.samples[0] for each in op.scalars}
    return Case(sizes=sizes, scalars=scalars, seed=7)


def equal(got, want):
    """Whether two runs wrote the same bytes."""
    return all(np.array_equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize("name", [op.name for op in operations().values() if divisions(op)])
def test_results_do_not_depend_on_the_number_of_rows(subjects_of, name):
    """Rows, or sequences, of the largest call against calls on the first few of them."""
    for subject in subjects_of(name):
        op = subject.operation
        for axis in divisions(op):
            most = 17 if op.sequences and axis == op.sequences.seqs else max(COLUMNS)
            tokens = {op.sequences.tokens: 70} if op.sequences else {}
            pool = dict.fromkeys(op.sequences.ranges, 150) if op.sequences else {}
            case = case_of(op, **{**tokens, **pool, axis: most})
            inputs = draw_inputs(op, case)
            division = divide(op, case, inputs.stored, axis)
            whole = execute(subject, case, inputs.stored, inputs.scalars)
            for count in (each for each in COLUMNS if each <= most):
                fewer, some = select(op, case, inputs.stored, division, set(range(count)))
                got = execute(subject, fewer, some, inputs.scalars)
                alike = divide(op, fewer, some, axis)
                for member in range(count):
                    mine = rows_of(op, fewer, got, alike, [member])
                    theirs = rows_of(op, case, whole, division, [member])
                    assert equal(mine, theirs), (subject.kernel.variant, axis, count, member)


@pytest.mark.parametrize("name", INVARIANT_SEQUENCES)
def test_results_do_not_depend_on_the_chunks(subjects_of, name):
    """One call against calls of every chunk size, the state carried."""
    for subject in subjects_of(name):
        op = subject.operation
        pool = dict.fromkeys(op.sequences.ranges, 2 * N_TOKENS)
        case = case_of(op, **{op.sequences.tokens: N_TOKENS, **pool})
        inputs = draw_inputs(op, case)
        at_once = execute(subject, case, inputs.stored, inputs.scalars)
        for size in CHUNKS:
            ends = [*range(size, N_TOKENS, size), N_TOKENS]
            got = in_chunks(subject, case, inputs, ends)
            assert equal(got, at_once), (subject.kernel.variant, size)


@pytest.mark.parametrize("name", INVARIANT_CUTS)
def test_results_do_not_depend_on_the_splits(subjects_of, name):
    """One split against many, and against more than there are rows."""
    for subject in subjects_of(name):
        op = subject.operation
        (cut,) = (axis.name for axis in op.axes if axis.cut)
        case = case_of(op, n_tokens=5, n_kv=300)
        inputs = draw_inputs(op, case)
        calls = [replace(case, sizes={**case.sizes, cut: count}) for count in SPLITS]
        results = [execute(subject, each, inputs.stored, inputs.scalars) for each in calls]
        assert all(equal(each, results[0]) for each in results), subject.kernel.variant


def test_the_sweep_sees_a_result_that_depends_on_the_splits(subjects_of):
    """The canary: fast arithmetic may differ, and on some count of splits it does."""
    subject = subjects_of("attention_f32")[-1]
    fast = next(
        each
        for each in subject.runner.kernels
        if each.operation == "attention_f32" and each.variant == f"{subject.kernel.variant}-fast"
    )
    subject = replace(subject, kernel=fast)
    case = case_of(subject.operation, n_tokens=5, n_kv=300)
    inputs = draw_inputs(subject.operation, case)
    calls = [replace(case, sizes={**case.sizes, "n_splits": count}) for count in SPLITS]
    results = [execute(subject, each, inputs.stored, inputs.scalars) for each in calls]
    assert not all(equal(each, results[0]) for each in results)
