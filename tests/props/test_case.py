"""A case's one line of text determines the case, and the case every byte."""

from random import Random

import numpy as np
import pytest

from hotfire.errors import InputError
from hotfire.props import mistakes
from hotfire.props.arena import PAD, PAGE, Arena
from hotfire.props.case import draw_inputs, parse
from hotfire.props.compare import Expected, check
from hotfire.props.execute import Broken
from hotfire.props.fills import FILLS
from hotfire.props.strategies import MAX_VALUES, cases, mistaken_cases
from hotfire.ref.registry import operation, operations

ALL = list(operations().values())


def drawn(op, n, *draws):
    """`n` cases of an operation from each way of drawing."""
    rng = Random(op.name)
    return [draw(rng) for draw in draws for _ in range(n)]


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_the_text_form_comes_back(op):
    """`parse(str(case))` is the case, for every operation and mistake."""
    fills = (*FILLS, *op.fills)
    for case in drawn(op, 20, cases(op, fills=fills, in_place=True), mistaken_cases(op)):
        assert parse(op, str(case)) == case


@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_drawn_cases_are_valid_and_bounded(op):
    """Sizes are within their domains, and no operand is huge."""
    for case in drawn(op, 50, cases(op), cases(op, smallest=1)):
        op.check_sizes(case.sizes)
        for operand in op.operands:
            assert np.prod(operand.shape(case.sizes)) <= MAX_VALUES * 2


def test_the_same_case_gives_the_same_bytes():
    """The draw depends on the seed alone."""
    op = operation("matvec_q4_0")
    text = "n_rows=3,n_cols=64,fill=raw,seed=12"
    first, second = (draw_inputs(op, parse(op, text)) for _ in range(2))
    for name in first.stored:
        assert np.array_equal(first.stored[name], second.stored[name])
    other = draw_inputs(op, parse(op, text.replace("12", "13")))
    assert not np.array_equal(first.stored["weight"], other.stored["weight"])


def test_every_operation_knows_mistakes_for_each_operand_axis_and_scalar():
    """None is forgotten: the names are derived from the spec."""
    names = mistakes.of(operation("rms_norm"))
    assert {"null:x", "null:weight", "null:y", "misaligned:x", "overlapping:y"} <= set(names)
    assert {"negative:n_tokens", "huge:n_embd", "eps:0.0", "eps:nan"} <= set(names)
    assert "ragged:n_cols" in mistakes.of(operation("quantize_q8_0"))


def test_an_operand_touches_the_guard_page_on_the_chosen_side():
    """End: its last byte is the page's last; start: its first is the page's first."""
    arena = Arena(3 * PAGE)
    for slot in (0, 3):
        end, start = (arena.place(slot, 100, side) for side in ("end", "start"))
        assert (end.offset + 100) % PAGE == 0
        assert start.offset % PAGE == 0
        assert arena.pad(start).size == arena.pad(end).size == PAD
    with pytest.raises(InputError, match="does not fit"):
        arena.place(0, 3 * PAGE, "end")


class _Fake:
    """A subject with just what `check` looks at."""

    def __init__(self, op, reference_encoding=False):
        self.operation = op
        self.kernel = self
        self.reference_encoding = reference_encoding


def test_the_comparison_finds_one_wrong_element_and_shows_it():
    """Index, both values and the ratio, on a rectangular result."""
    op = operation("softmax")
    want = np.arange(6.0).reshape(2, 3)
    right = Expected({"y": want}, {"y": np.full((2, 3), 0.25)})
    got = want.copy()
    got[1, 2] += 0.5
    with pytest.raises(Broken, match=r"y\[1, 2\]: want 5, got 5\.5, .* 1 of 6 elements"):
        check("rule", _Fake(op), {"y": op.outputs[0].format.encode(got)}, right)
    got[1, 2] = np.nan
    with pytest.raises(Broken, match="got nan"):
        check("rule", _Fake(op), {"y": op.outputs[0].format.encode(got)}, right)


def test_the_comparison_says_when_it_proves_nothing():
    """All zero, or bounds above the values: not telling."""
    op = operation("softmax")
    zero = np.zeros((2, 3))
    stored = {"y": op.outputs[0].format.encode(zero)}
    assert not check("rule", _Fake(op), stored, Expected({"y": zero}, {"y": zero}))
    small = np.full((2, 3), 0.1)
    stored = {"y": op.outputs[0].format.encode(small)}
    assert not check("rule", _Fake(op), stored, Expected({"y": small}, {"y": small * 2}))
    assert check("rule", _Fake(op), stored, Expected({"y": small}, {"y": small * 1e-6}))


def test_promised_encodings_are_compared_byte_by_byte():
    """One code off by one is within a nearest encoder's bound, and still not the reference's."""
    op = operation("quantize_q8_0")
    fmt = op.outputs[0].format
    x = np.linspace(-1.0, 1.0, 64).reshape(1, 64)
    right = Expected({"y": x}, op.bound(x=x))
    stored = fmt.encode(x)
    assert check("rule", _Fake(op, True), {"y": stored}, right)
    other = fmt.encode(x * (1 + 2.0**-8))
    with pytest.raises(Broken, match="blocks differ"):
        check("rule", _Fake(op, True), {"y": other}, right)
