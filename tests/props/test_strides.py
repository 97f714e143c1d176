"""Rows with gaps: only kernels that say so get them, and faults with them are named."""

import textwrap

import numpy as np
import pytest

from hotfire.props.case import parse
from hotfire.props.execute import Broken, Subject, execute
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.props.search import search
from hotfire.props.strides import Rows
from hotfire.ref.registry import operation

ADAPTER = """
import ctypes
import numpy as np
from hotfire.props.provider import Kernel, Provider

def rows(call, name, stride):
    n, width = call.sizes["n_rows"], call.sizes["n_cols"]
    if not n or not width:
        return np.empty((n, width), np.float32)
    count = (n - 1) * stride + width
    memory = np.ctypeslib.as_array((ctypes.c_float * count).from_address(call.pointers[name]))
    return np.lib.stride_tricks.as_strided(memory, (n, width), (4 * stride, 4))

def l2_norm(call):
    width = call.sizes["n_cols"]
    x = rows(call, "x", {x})
    y = rows(call, "y", {y})
    size = np.sqrt((x * x).sum(axis=1, keepdims=True, dtype=np.float64) + call.scalars["eps"])
    y[:] = x / size
    {after}

def provide(argument):
    kernel = Kernel(operation="l2_norm", variant="numpy", call=l2_norm, strided={strided},
                    row_invariant=True)
    return Provider(name=__file__, version="1", kernels=[kernel])
"""

RIGHT = {
    "x": 'call.sizes["x_stride"]',
    "y": 'call.sizes["y_stride"]',
    "after": "pass",
    "strided": "True",
}

FAULTS = {
    "reads_rows_as_one_block": ({"x": "width"}, "agrees_with_reference"),
    "writes_rows_as_one_block": ({"y": "width"}, "agrees_with_reference"),
    "writes_at_the_inputs_stride": ({"y": 'call.sizes["x_stride"]'}, "agrees_with_reference"),
    "reads_at_the_outputs_stride": ({"x": 'call.sizes["y_stride"]'}, "strides_are_invisible"),
    "sums_the_gap_too": (
        {"after": 'y[:] = y + 0 * rows(call, "x", call.sizes["x_stride"] - 1)'},
        "strides_are_invisible",
    ),
}


def subject_of(runner):
    (kernel,) = runner.kernels
    return Subject(runner, kernel, operation("l2_norm"))


def failing(tmp_path, **places):
    """The properties that fail."""
    path = tmp_path / "adapter.py"
    text = textwrap.dedent(ADAPTER)
    for place, right in RIGHT.items():
        text = text.replace("{" + place + "}", places.get(place, right))
    path.write_text(text)
    with Runner(str(path)) as runner:
        subject = subject_of(runner)
        stated = [each for each in PROPERTIES if each.applies(subject)]
        found = {each.name: search(subject, each, 100, seed=0, make_small=False) for each in stated}
        return {name: each.broken for name, each in found.items() if each.broken}, set(found)


def test_a_right_kernel_raises_no_alarm(tmp_path):
    """With the relation among what was asked."""
    wrong, asked = failing(tmp_path)
    assert not wrong
    assert "strides_are_invisible" in asked


def test_a_kernel_without_strides_gets_none(tmp_path):
    """It may take its rows for one block."""
    wrong, asked = failing(tmp_path, x="width", y="width", strided="False")
    assert not wrong
    assert "strides_are_invisible" not in asked


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_with_strides_is_named(tmp_path, name):
    """By values, and by the relation."""
    places, stated = FAULTS[name]
    wrong, _ = failing(tmp_path, **places)
    assert stated in wrong
    assert "strides_are_invisible" in wrong


def test_a_gap_that_is_written_is_memory_unsafe():
    """The planted fault writes rows of y at the stride of x, over what lies between them."""
    op = operation("l2_norm")
    with Runner("hotfire-mutants:l2_norm_stride_of_other") as runner:
        kernel = next(each for each in runner.kernels if each.operation == "l2_norm")
        case = parse(op, "n_rows=4,n_cols=3,x_gap=1,y_gap=6")
        stored = {"x": np.ones(12, dtype=np.float32).view(np.uint8)}
        with pytest.raises(Broken, match="between the rows of y") as broken:
            execute(Subject(runner, kernel, op), case, stored, {"eps": 1e-6})
    assert broken.value.rule == "stays_in_bounds"


def test_rows_and_memory():
    """Two rows of three bytes, five apart."""
    rows = Rows(n_rows=2, width=3, stride=5)
    memory = rows.spread(np.arange(6, dtype=np.uint8))
    assert memory.tolist() == [0, 1, 2, 255, 255, 3, 4, 5]
    assert rows.gather(memory).tolist() == [0, 1, 2, 3, 4, 5]
    assert rows.gaps(memory).tolist() == [255] * 4
    assert Rows(n_rows=0, width=3, stride=5).n_bytes == 0
