"""Every operation's reference, bound and designed inputs, checked by another hand."""

import inspect
import itertools
import re

import numpy as np
import pytest

from hotfire.props.case import Case, draw_inputs
from hotfire.ref.c_header import kernel_cdef, kernel_header, prototype
from hotfire.ref.operation import evaluate, gamma, measure
from hotfire.ref.registry import operation, operations

ALL = list(operations().values())
NAMES = [each.name for each in ALL]


def case(op, fill, seed=0, least=2):
    """A rectangular case: no two axes have the same size."""
    sizes = {
        axis.name: max(axis.least, (least + 3 * index) * axis.multiple_of)
        for index, axis in enumerate(op.axes)
    }
    for axis in op.axes:
        if axis.most:
            most = measure(axis.most, sizes)
            sizes[axis.name] = min(sizes[axis.name], most // axis.multiple_of * axis.multiple_of)
    op.check_sizes(sizes)
    scalars = {scalar.name: scalar.samples[0] for scalar in op.scalars}
    return Case(sizes=sizes, scalars=scalars, fill=fill, seed=seed)


@pytest.mark.parametrize("op", ALL, ids=NAMES)
def test_reference_agrees_with_the_second_formula(op):
    """In float64, to a few roundings, where the operation names a second formula."""
    if op.second is None:
        pytest.skip("conversions are checked against ggml in test_formats")
    for seed in range(5):
        chosen = case(op, "normal", seed)
        inputs = draw_inputs(op, chosen)
        want, got = (
            evaluate(each, inputs.logical, inputs.scalars, chosen.sizes)
            for each in (op.second, op.reference)
        )
        for name in want:
            assert got[name].shape == want[name].shape
            np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("op", ALL, ids=NAMES)
def test_designed_inputs_are_stored_without_loss(op):
    """What the kernel reads is what was designed: encoding rounds nothing."""
    if "quantize" in op.name:
        pytest.skip("conversions are designed to meet ties, not to be stored without loss")
    for seed, least in itertools.product(range(5), (1, 3)):
        chosen = case(op, "exact", seed, least)
        drawn = op.exact(np.random.default_rng(seed), dict(chosen.sizes))
        inputs = draw_inputs(op, chosen)
        for operand in op.drawn:
            assert np.array_equal(inputs.logical[operand.name], drawn[operand.name])


@pytest.mark.parametrize("name", ["matvec_f32", "matvec_q8_0", "matvec_q4_0"])
def test_designed_products_are_exact_in_any_order(name):
    """Sums in f32, forwards, backwards and shuffled, all equal the float64 result."""
    op = operation(name)
    rng = np.random.default_rng(5)
    for n_cols in (64, 512, 4096):
        sizes = {"n_rows": 3, "n_cols": n_cols}
        inputs = draw_inputs(op, Case(sizes=sizes, scalars={}, fill="exact", seed=n_cols))
        products = (inputs.logical["weight"] * inputs.logical["x"]).astype(np.float32)
        want = op.reference(**inputs.logical)["y"]
        assert np.abs(want).max() > 0
        for order in (np.arange(n_cols), np.arange(n_cols)[::-1], rng.permutation(n_cols)):
            total = np.zeros(3, dtype=np.float32)
            for column in order:
                total += products[:, column]
            assert np.array_equal(total.astype(np.float64), want)


@pytest.mark.parametrize("op", ALL, ids=NAMES)
def test_bounds_are_finite_and_not_negative(op):
    """At every fill, also where results underflow."""
    for fill in ("normal", "wide", "outliers", "ties", "tiny", "raw", *op.fills):
        chosen = case(op, fill)
        inputs = draw_inputs(op, chosen)
        for function in filter(None, (op.bound, op.fast_bound)):
            bounds = evaluate(function, inputs.logical, inputs.scalars, chosen.sizes)
            for bound in bounds.values():
                assert np.isfinite(bound).all()
                assert (bound >= 0).all()


@pytest.mark.parametrize("op", operations().values(), ids=lambda op: op.name)
def test_an_operation_says_what_it_is_and_where_from(op, pytestconfig):
    """Formula, operands and bound in words, a source, and the bound's margin in the docs."""
    assert " = " in op.doc
    assert all(each.doc for each in (*op.operands, *op.axes, *op.scalars))
    module = inspect.getmodule(op.reference)
    assert re.search(r"arXiv|ggml|numpy|Qwen|20\d\d|bound\sis that of", module.__doc__)
    makers = [each for name, each in vars(module).items() if "bound" in name]
    assert any(each.__doc__ for each in makers)
    readme = (pytestconfig.rootpath / "ref/README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {op.name} \| (exact|\d)", readme, re.MULTILINE)


def test_softmax_bound_is_no_constant():
    """[15, 0 x 74]: the small weights may be off by more than 64 ulp, and the bound knows."""
    row = np.array([[15.0] + [0.0] * 74])
    op = operation("softmax")
    ratio = op.bound(x=row)["y"] / (op.reference(x=row)["y"] * 2.0**-23)
    assert ratio.max() > 45
    assert ratio[0, 0] < ratio[0, 1]


def test_gamma_is_highams():
    """n u / (1 - n u), by hand for n = 2^20, where n u = 2^-4."""
    assert gamma(2**20) == 2.0**-4 / (1 - 2.0**-4)


def test_the_committed_header_is_what_the_specs_say(pytestconfig):
    """Whoever edits a spec runs `hotfire abi header`."""
    path = pytestconfig.rootpath / "native/include/hotfire_kernels.h"
    assert path.read_text(encoding="utf-8") == kernel_header()


def test_prototypes_list_inputs_outputs_scalars_sizes():
    """The argument order that STYLE asks for, on an operation that has all four."""
    text = " ".join(prototype(operation("rms_norm")).split())
    assert text == (
        "hotfire_status hotfire_rms_norm(const hotfire_exec *exec, const float *x, "
        "const float *weight, float *y, float eps, int64_t n_tokens, int64_t n_embd);"
    )
    assert text in " ".join(kernel_cdef().split())


@pytest.mark.parametrize("name", ["gated_delta", "gated_delta_chunked"])
def test_a_decay_as_a_power_of_two_is_within_the_bound(name):
    """exp(g) as 2^(g log2 e) in f32, as GPU kernels form it, on a state that only decays."""
    op, n = operation(name), 500
    gate = -np.linspace(1, 86, n).astype(np.float32).reshape(1, n)
    state = np.random.default_rng(0).standard_normal((1, n, 4, 3)).astype(np.float32)
    zeros = np.zeros((1, 1, 4))
    inputs = {"q": zeros, "k": zeros, "v": np.zeros((1, n, 3)), "gate": gate.astype(np.float64)}
    inputs |= {"beta": np.zeros((1, n)), "state": state.astype(np.float64)}
    inputs |= {"seq_start": np.array([0, 1]), "has_state": np.array([1])}
    sizes = {axis.name: 1 for axis in op.axes} | {"tiled": 0, "n_groups": n}
    want, bound = (
        evaluate(each, inputs, {"scale": 1.0}, sizes)["state"] for each in (op.reference, op.bound)
    )
    power = np.exp2(gate * np.float32(np.log2(np.e)))
    off = np.abs(power[..., None, None] * state - want)
    assert (off <= bound).all()
    assert (off > 20 * 2.0**-24 * np.abs(want)).any()
