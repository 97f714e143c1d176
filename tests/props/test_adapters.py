"""Adapters that misbehave: whatever a kernel does to its process, one clear verdict or error."""

import json
import shlex
import subprocess
import sys
import textwrap

import pytest

from hotfire.errors import InputError
from hotfire.props.runner import Runner
from hotfire.props.search import check_kernel, kernels_of
from hotfire.verdict import Status

PLANS = """
import ctypes
import numpy as np
from hotfire.props.provider import Kernel, Provider

plans = {}


def l2_norm(call):
    n_rows, n_cols = call.sizes["n_rows"], call.sizes["n_cols"]
    if not n_rows * n_cols:
        return
    kept = dict(call.pointers), dict(call.scalars)
    {plan}
    x, y = (
        np.frombuffer((ctypes.c_float * (n_rows * n_cols)).from_address(kept[0][name]), np.float32)
        .reshape(n_rows, n_cols)
        for name in ("x", "y")
    )
    y[:] = x / np.sqrt((x * x).sum(axis=1, keepdims=True) + np.float32(kept[1]["eps"]))


def provide(argument):
    kernel = Kernel(operation="l2_norm", variant="numpy", call=l2_norm)
    return Provider(name=__file__, version="1", kernels=[kernel])
"""

PLANTED = {
    "pointers": "kept = plans.setdefault((n_rows, n_cols), kept)",
    "scalars": "kept = call.pointers, plans.setdefault((n_rows, n_cols), kept)[1]",
    "scalars_for_the_same_memory": "kept = call.pointers, plans.setdefault("
    "(n_rows, n_cols, call.pointers['x'], call.pointers['y']), kept)[1]",
}

MISBEHAVING = """
from hotfire.props.provider import Kernel, Provider


def call(call):
    pass


def provide(argument):
    return Provider(name=__file__, version="1", kernels=[{kernels}])
"""


def verdict_of(provider, **options):
    """Checks the provider's only kernel."""
    with Runner(provider, seconds=2.0) as runner:
        (kernel,) = kernels_of(runner)
        return check_kernel(runner, kernel, **options)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("import os; os._exit(0)", "exit code 0"),
        ("import os; os._exit(7)", "exit code 7"),
        ("ctypes.CDLL(None).exit(5)", "exit code 5"),
    ],
)
def test_a_kernel_that_ends_its_process_crashed_on_a_case(adapter, fault, said):
    """Not an error of ours: the next kernel runs, the case is small, and it says what happened."""
    verdict = verdict_of(adapter(f"if y.shape[1] > 8: {fault}"), only="agrees_with_reference")
    assert verdict.status is Status.CRASHED
    (found,) = verdict.findings
    assert found.rule == "returns"
    assert said in found.message
    assert "n_cols=9," in found.subject["case"]


def test_a_kernel_that_closes_our_socket_crashed_on_a_case(adapter):
    """What it says is gone, the case is not."""
    fault = "import os; os.closerange(3, 256)"
    verdict = verdict_of(adapter(fault), only="agrees_with_reference")
    assert verdict.status is Status.CRASHED
    assert verdict.findings[0].rule == "returns"


def test_a_kernel_that_forks_answers_once(adapter):
    """Its child goes its way; answers do not mix."""
    assert verdict_of(adapter("import os; os.fork()")).status is Status.PASSED


@pytest.mark.parametrize("fault", ["raise KeyError('lost')", "import sys; sys.exit('lost')"])
def test_an_adapters_error_comes_with_the_line_that_shows_it(adapter, fault):
    """The first line says what, the second how to see it."""
    path = adapter(f"if y.shape[1] > 8: {fault}")
    with pytest.raises(InputError, match=r"the adapter failed: .*lost") as caught:
        verdict_of(path)
    words = shlex.split(str(caught.value).split("reproduce: ")[1])
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "lost" in done.stderr


def test_what_a_kernel_prints_is_no_part_of_a_verdict(adapter):
    """Standard output is the verdict's; a library's goes to standard error."""
    fault = "ctypes.CDLL(None).puts(b'loud'); ctypes.CDLL(None).fflush(None); print('louder')"
    words = ["hotfire", "props", "run", "softmax", "--provider", adapter(fault), "--format", "json"]
    words += ["--property", "neutral_tail_is_invisible"]
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["verdict"] == "passed"
    assert "loud" in done.stderr


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ("Kernel(operation='sofmax', variant='c', call=call)", "'sofmax' is not known"),
        ("*[Kernel(operation='softmax', variant='c', call=call)] * 2", "softmax/c twice"),
        ("", "offers no kernel"),
    ],
)
def test_an_adapter_that_offers_nonsense_is_refused_in_words(tmp_path, kernels, said):
    """A misspelt kernel is not left out in silence."""
    path = tmp_path / "adapter.py"
    path.write_text(MISBEHAVING.replace("{kernels}", kernels))
    with Runner(str(path)) as runner, pytest.raises(InputError, match=said):
        kernels_of(runner)


def test_a_failure_that_does_not_come_again_says_so(adapter):
    """The line to run is then the whole search, in which it does come again."""
    fault = "call.__class__.n = getattr(call.__class__, 'n', 0) + 1; y[0] += call.n % 60 == 59"
    path = adapter(fault)
    verdict = verdict_of(path, only="agrees_with_reference")
    assert verdict.status is Status.FAILED
    (found,) = verdict.findings
    assert "not reproduced" in found.message
    words = shlex.split(found.reproduce)
    assert words[-4:] == ["--profile", "quick", "--seed", "0"]
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1


def test_a_kernel_that_always_hangs_costs_few_timeouts(adapter):
    """Three in the first search, which makes the case smaller, and one in each of the others."""
    with Runner(adapter("while True: pass"), seconds=0.2) as runner:
        (kernel,) = kernels_of(runner)
        verdict = check_kernel(runner, kernel)
    assert verdict.status is Status.HUNG
    assert verdict.measurements["n_cases"] <= 3 + len(verdict.scope["properties"])


def test_a_kernel_that_is_wrong_now_and_then_is_found(adapter):
    """As threads that race are: one call is run many times."""
    fault = "y[0, 0] += np.random.default_rng().random() < 0.2"
    verdict = verdict_of(adapter(fault), only="repeated_runs_are_right")
    assert verdict.status is Status.FAILED
    assert verdict.findings[0].rule == "repeated_runs_are_right"


def test_sums_in_changing_order_are_no_leftovers(adapter):
    """A kernel that promises nothing of bits may differ from itself within the bound."""
    fault = (
        "order = np.random.default_rng().permutation(y.shape[1]); "
        "y[:] = weights / np.cumsum(weights[:, order], axis=1)[:, -1:]"
    )
    verdict = verdict_of(adapter(fault))
    assert verdict.status is Status.PASSED, verdict.findings


def test_a_kernel_that_forgets_nothing_of_ours_passes(tmp_path):
    """The canary of the next test."""
    path = tmp_path / "adapter.py"
    path.write_text(textwrap.dedent(PLANS).replace("{plan}", "pass"))
    assert verdict_of(str(path)).status is Status.PASSED


@pytest.mark.parametrize("name", PLANTED)
def test_a_plan_that_kept_what_it_must_not_is_found(tmp_path, name):
    """As a captured graph that holds pointers, or an argument of the call it was captured from."""
    path = tmp_path / "adapter.py"
    path.write_text(textwrap.dedent(PLANS).replace("{plan}", PLANTED[name]))
    verdict = verdict_of(str(path), only="earlier_calls_leave_no_trace")
    assert verdict.status in (Status.FAILED, Status.CRASHED)
