"""Code objects as providers: skipped in words without a device; a lost device comes back."""

import json
import subprocess
import sys

import pytest

from hotfire.device.runtime import KINDS, Device, unavailable
from hotfire.errors import InputError, LibraryError
from hotfire.props.runner import Runner

from .conftest import COMPILERS, ROOT

TARGETS = {"cuda": "sm_90", "hip": "gfx906"}

LOSES_ITS_DEVICE = """
from hotfire.props.provider import Fault, Kernel, Provider

calls = []

def call(arguments):
    calls.append(arguments)
    raise Fault("device_error", f"call {len(calls)} of this process", is_lost=True)

def provide(argument):
    kernel = Kernel(operation="rms_norm", variant="lost", call=call)
    return Provider(name="lost", version="1", kernels=[kernel])
"""


def hotfire(*words):
    """The command line's exit code and its verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "hotfire", *words, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_device_all_is_skipped_with_one_reason(built, kind):
    """Exit code 3, as nothing was run."""
    reason = unavailable(kind)
    if not reason:
        pytest.skip(f"there is a {kind} device")
    target = TARGETS[kind]
    folder = built(target)
    code, verdict = hotfire("props", "run", "--provider", f"{kind}:{folder}")
    assert code == 3
    assert verdict["verdict"] == "skipped"
    kernels = [
        f"{kind}:{folder} {path.name.split('.')[0]} {target}"
        for path in sorted(folder.glob(f"*.{COMPILERS[target][1]}"))
    ]
    assert [part["name"] for part in verdict["parts"]] == kernels
    assert {part["reason"] for part in verdict["parts"]} == {reason}


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_device_is_one_error(kind):
    """Opening it says what is missing, and names the kind."""
    if not unavailable(kind):
        pytest.skip(f"there is a {kind} device")
    with pytest.raises(LibraryError, match=f"^{kind}: "):
        Device(kind)


def test_the_benchmark_says_that_there_is_no_device():
    """It is exercised on every machine, up to the measurement."""
    if not unavailable("cuda"):
        pytest.skip("there is a cuda device")
    done = subprocess.run(
        [sys.executable, ROOT / "ci/bench/gpu_matvec.py", "cuda", "any.cubin"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("hotfire: cuda: ")


def test_another_kind_is_refused():
    """There are two."""
    with pytest.raises(InputError, match="expected one of: cuda, hip"):
        Device("vulkan")


@pytest.mark.parametrize("argument", ["", "nowhere.cubin"])
def test_a_code_object_that_is_not_there_is_refused(argument):
    """Bad input, exit code 2."""
    with pytest.raises(InputError, match="code object"):
        Runner(f"cuda:{argument}")


def test_a_lost_device_is_opened_anew(tmp_path):
    """Its fault is reported under its own rule, and the next call meets a fresh process."""
    provider = tmp_path / "lost.py"
    provider.write_text(LOSES_ITS_DEVICE)
    with Runner(str(provider)) as runner:
        (kernel,) = runner.kernels
        outcomes = [runner.call(kernel, {}, {}, {}) for _ in range(3)]
    assert {outcome.kind for outcome in outcomes} == {"faulted"}
    assert {each.message for each in outcomes} == {"device_error: call 1 of this process"}
