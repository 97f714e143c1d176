"""Bad arguments are refused in words, and nothing is written."""

from __future__ import annotations

import numpy as np
import pytest

ROWS, COLS = 3, 8
UNTOUCHED = np.float32(-7)


def _floats(*shape: int) -> np.ndarray:
    return np.ones(shape, dtype=np.float32)


def _output(*shape: int) -> np.ndarray:
    return np.full(shape, UNTOUCHED, dtype=np.float32)


def _refuses(call, words: str, kernel: str, *arguments) -> None:
    assert call(kernel, *arguments) == "invalid argument"
    assert words in call.error
    outputs = [each for each in arguments if isinstance(each, np.ndarray)]
    assert all((each == 1).all() or (each == UNTOUCHED).all() for each in outputs)


@pytest.mark.parametrize(
    ("n_rows", "n_cols", "words"),
    [
        (-1, COLS, "n_rows is -1; expected 0 or more"),
        (ROWS, -8, "n_cols is -8; expected 0 or more"),
        (2**40, 2**40, "x has more bytes than 64 bits count; expected smaller sizes"),
    ],
)
def test_sizes_are_checked(call_scalar, n_rows, n_cols, words):
    """Negative and overflowing sizes never reach a kernel."""
    _refuses(
        call_scalar, words, "softmax", _floats(ROWS, COLS), _output(ROWS, COLS), n_rows, n_cols
    )


@pytest.mark.parametrize(("x_stride", "y_stride"), [(COLS - 1, COLS), (COLS, -1), (COLS, 0)])
def test_rows_do_not_overlap(call_scalar, x_stride, y_stride):
    """A stride is at least the row, however many rows there are."""
    name, stride = ("x", x_stride) if x_stride < COLS else ("y", y_stride)
    words = f"{name}_stride is {stride}; expected at least {COLS}"
    for rows in (ROWS, 1, 0):
        x, y = _floats(ROWS, COLS), _output(ROWS, COLS)
        _refuses(call_scalar, words, "l2_norm", x, y, 1e-6, rows, COLS, x_stride, y_stride)


def test_strides_that_overflow_are_refused(call_scalar):
    """The bytes of all rows together are what must be counted."""
    x, y = _floats(ROWS, COLS), _output(ROWS, COLS)
    words = "x has more bytes than 64 bits count; expected smaller sizes"
    _refuses(call_scalar, words, "l2_norm", x, y, 1e-6, ROWS, COLS, 2**62, COLS)


def test_in_place_takes_one_stride(call_scalar):
    """Rows that are written where others still have to be read would be lost."""
    both = _floats(ROWS, 2 * COLS)
    words = "y at"
    _refuses(call_scalar, words, "l2_norm", both, both, 1e-6, ROWS, COLS, COLS, 2 * COLS)
    assert call_scalar("l2_norm", both, both, 1e-6, ROWS, COLS, 2 * COLS, 2 * COLS) == "ok"
    assert (both[:, COLS:] == 1).all()
    np.testing.assert_allclose(both[:, :COLS], COLS**-0.5, rtol=1e-6)


def test_ragged_row_is_refused(call_scalar):
    """A row of blocks has a whole number of them."""
    words = "n_cols is 33; expected a multiple of 32"
    y = np.full(2 * 34, 1, dtype=np.uint8)
    _refuses(call_scalar, words, "quantize_q8_0", _floats(1, 64), y, 1, 33)


@pytest.mark.parametrize("eps", [0.0, -1e-6, float("nan"), float("inf")])
def test_eps_must_be_finite_and_positive(call_scalar, eps):
    """The text repeats what came."""
    x, y = _floats(ROWS, COLS), _output(ROWS, COLS)
    words = f"eps is {eps:g}; expected a finite number above 0"
    _refuses(call_scalar, words, "rms_norm", x, _floats(COLS), y, eps, ROWS, COLS)


def test_null_is_refused_unless_there_is_nothing(call_scalar):
    """Pointers of empty operands are not looked at."""
    x, y = _floats(ROWS, COLS), _output(ROWS, COLS)
    _refuses(call_scalar, "x is NULL; expected 96 bytes", "softmax", None, y, ROWS, COLS)
    _refuses(call_scalar, "y is NULL; expected 96 bytes", "softmax", x, None, ROWS, COLS)
    assert call_scalar("softmax", None, None, ROWS, 0) == "ok"
    assert call_scalar("softmax", None, None, 2**62, 0) == "ok"
    assert call_scalar("matvec_f32", None, None, None, 0, COLS) == "invalid argument"
    assert "x is NULL" in call_scalar.error


def test_sum_of_no_columns_is_zero(call):
    """The output has elements although the inputs have none."""
    for kernel in ("matvec_f32", "matvec_q8_0", "matvec_q4_0"):
        y = _output(ROWS)
        assert call(kernel, None, None, y, ROWS, 0) == "ok"
        assert not y.any()


def test_misaligned_pointer_is_refused(call_scalar):
    """An element lies on a multiple of its own alignment."""
    x, y = _floats(ROWS, COLS), _output(ROWS, COLS)
    words = "expected a multiple of 4 bytes"
    _refuses(call_scalar, words, "softmax", x.ctypes.data + 2, y, 1, COLS)
    _refuses(call_scalar, words, "softmax", x, y.ctypes.data + 1, 1, COLS)
    assert (y == UNTOUCHED).all()


def test_end_of_address_space_is_no_memory(call_scalar):
    """A buffer that would wrap around is refused."""
    _refuses(call_scalar, "bytes from there", "softmax", 2**64 - 16, _output(COLS), 1, COLS)


@pytest.mark.parametrize("shift", [-1, 1, COLS - 1])
def test_shifted_overlap_is_refused(call_scalar, shift):
    """In place means exactly in place."""
    memory = _floats(3 * COLS)
    x = memory.ctypes.data + 4 * COLS
    _refuses(call_scalar, "overlaps x", "softmax", x, x + 4 * shift, 1, COLS)
    assert (memory == 1).all()
    assert call_scalar("softmax", x, x - 4 * COLS, 1, COLS) == "ok"
    assert call_scalar("softmax", x, x + 4 * COLS, 1, COLS) == "ok"


def test_in_place_is_for_the_named_input_only(call_scalar):
    """rms_norm may overwrite x, not weight."""
    x, weight = _floats(1, COLS), _floats(COLS)
    _refuses(call_scalar, "overlaps weight", "rms_norm", x, weight, weight, 1e-6, 1, COLS)
    assert call_scalar("rms_norm", x, weight, x, 1e-6, 1, COLS) == "ok"


def test_inputs_may_overlap(call_scalar):
    """Nobody writes them."""
    x, y = _floats(1, COLS), _output(1)
    assert call_scalar("matvec_f32", x, x, y, 1, COLS) == "ok"
    assert y[0] == COLS


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("flags", 4, "exec.flags is 4; expected 0 or HOTFIRE_EXEC_FAST"),
        ("stream", 64, "exec.stream is 0x40; expected NULL on the CPU"),
        ("workspace", 96, "exec.workspace is 0x60; expected a multiple of 64 bytes"),
        ("workspace_size", 8, "exec.workspace is NULL; expected 8 bytes"),
    ],
)
def test_exec_is_checked(call_scalar, field, value, words):
    """What version 1 does not have must not be asked for."""
    if field in ("stream", "workspace"):
        value = call_scalar.ffi.cast("void *", value)
    setattr(call_scalar.execution, field, value)
    _refuses(call_scalar, words, "softmax", _floats(1, COLS), _output(1, COLS), 1, COLS)


def test_exec_of_another_size_is_refused_first(call_scalar):
    """No other field is read, so that the context cannot hold a text."""
    call_scalar.execution.struct_size -= 8
    call_scalar.execution.flags = 2
    y = _output(1, COLS)
    assert call_scalar("softmax", _floats(1, COLS), y, 1, COLS) == "abi mismatch"
    assert call_scalar.error == ""
    assert (y == UNTOUCHED).all()


def test_exec_and_context_must_be_there(library, call_scalar):
    """NULL is refused, not followed."""
    ffi, invalid = library.ffi, library.lib.HOTFIRE_STATUS_INVALID_ARGUMENT
    size = ffi.sizeof("hotfire_exec")
    assert library.lib.hotfire_softmax(ffi.NULL, ffi.NULL, ffi.NULL, 0, 0) == invalid
    lone = ffi.new("hotfire_exec *", {"struct_size": size})
    assert library.lib.hotfire_softmax(lone, ffi.NULL, ffi.NULL, 0, 0) == invalid


def test_first_failure_wins_and_its_text_stays(call_scalar):
    """A later call that succeeds leaves the text of the last failure."""
    _refuses(call_scalar, "n_rows is -2", "softmax", None, None, -2, -3)
    assert call_scalar("softmax", None, None, 0, 0) == "ok"
    assert "n_rows is -2" in call_scalar.error
