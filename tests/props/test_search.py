"""The search on a user's own adapter: healthy passes, each kind of fault is found and named."""

import shlex
import subprocess
import sys

import pytest

from hotfire.errors import InputError
from hotfire.props.runner import Runner
from hotfire.props.search import check_case, check_kernel, kernels_of
from hotfire.verdict import Severity, Status

FAULTS = {
    "wrong_at_five_columns": (
        "y[:, 1:2] *= np.float32(1.01) if y.shape[1] == 5 else np.float32(1)",
        Status.FAILED,
        "exact_on_designed_inputs",
    ),
    "wrong_beside_nan": (
        "y[1:] += np.float32(0) * y[:1].sum()",
        Status.FAILED,
        "neighbours_are_invisible",
    ),
    "unwritten_column": (
        "y[:, -1] = np.float32(np.nan)",
        Status.FAILED,
        "exact_on_designed_inputs",
    ),
    "changed_input": ("x[0, 0] += np.float32(1)", Status.FAILED, "leaves_inputs_alone"),
    "read_past_the_end": (
        "ctypes.string_at(call.pointers['x'] + 4 * x.size, 1)",
        Status.CRASHED,
        "stays_in_bounds",
    ),
    "write_before_the_start": (
        "ctypes.memset(call.pointers['y'] - 4, 0, 4)",
        Status.FAILED,
        "stays_in_bounds",
    ),
    "null_read": ("ctypes.string_at(8, 1)", Status.CRASHED, "stays_in_bounds"),
    "abort": ("import os; os.abort()", Status.CRASHED, "stays_in_bounds"),
    "refusal": ("raise Refused('not today')", Status.FAILED, "accepts_valid_input"),
}


def verdict_of(provider, **options):
    """Checks the provider's only kernel."""
    with Runner(provider, seconds=1.0) as runner:
        (kernel,) = kernels_of(runner)
        return check_kernel(runner, kernel, **options)


def test_a_healthy_adapter_passes(adapter):
    """No alarm on a right kernel, and the scope says what was tried."""
    verdict = verdict_of(adapter())
    assert verdict.status is Status.PASSED
    assert verdict.measurements["n_cases"] >= 400
    assert verdict.measurements["n_shapes"] >= 100
    assert "refuses_mistakes" not in verdict.scope["properties"]


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_under_its_rule(adapter, name):
    """The canaries: a planted fault gives its status and its rule."""
    fault, status, rule = FAULTS[name]
    verdict = verdict_of(adapter(fault))
    assert verdict.status is status
    assert rule in {found.rule for found in verdict.findings}


def test_a_fault_names_the_operand_and_the_distance(adapter):
    """Not an address: which operand, which side, how far."""
    (found, *_) = verdict_of(adapter(FAULTS["read_past_the_end"][0])).findings
    assert found.message.startswith("SIGSEGV: read 0 bytes past the end of x")
    assert found.severity is Severity.MEMORY_UNSAFE
    with Runner(adapter(FAULTS["write_before_the_start"][0])) as runner:
        (kernel,) = kernels_of(runner)
        verdict = check_case(
            runner, kernel, "n_rows=2,n_cols=3,side=start", "agrees_with_reference"
        )
    assert verdict.status is Status.CRASHED
    assert "write 4 bytes before y" in verdict.findings[0].message


def test_the_case_is_small_and_its_line_reproduces_it(adapter):
    """Five columns only: the search ends at five columns, and the printed line fails again."""
    verdict = verdict_of(adapter(FAULTS["wrong_at_five_columns"][0]))
    found = verdict.findings[0]
    assert "n_rows=1,n_cols=5," in found.subject["case"]
    words = shlex.split(found.reproduce)
    assert words[0] == "hotfire"
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert found.message.splitlines()[0] in done.stdout


def test_a_mostly_zero_result_is_mistrusted(adapter):
    """A kernel whose every bound exceeds its result proves nothing, and is not called right."""
    verdict = verdict_of(adapter(), only="agrees_with_reference")
    assert verdict.status is Status.PASSED
    meagre = verdict.measurements["n_meagre"] / verdict.measurements["n_cases"]
    assert 0 < meagre < 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "defines no function"),
        ("raise RuntimeError('no GPU')", "no GPU"),
        ("def provide(argument): return 3", "not a Provider"),
        ("def provide(argument): 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_adapter_is_one_clear_error(tmp_path, text, said):
    """Whatever its module does, the error names the file and the reason."""
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Runner(str(path))


def test_an_adapters_own_bug_is_not_the_kernels(adapter):
    """An exception in Python is bad input, not a wrong kernel."""
    with pytest.raises(InputError, match="KeyError"):
        verdict_of(adapter("call.sizes['no_such_axis']"))
