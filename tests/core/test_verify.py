"""The main job: its parts, and what an interruption keeps."""

import json
import signal
import subprocess
import sys
import time

import jsonschema

from hotfire.cli.progress import Progress
from hotfire.cli.verify import ALARMS, _fuzzed, check_binding
from hotfire.props.mutants import mutants
from hotfire.verdict import Status, Verdict, schema

ENTRY = """
[[known]]
operation = "softmax"
provider = "hotfire"
property = "agrees_with_reference"
issue = "#12"
expires = 2999-01-01
reason = "invented"
"""


def test_our_own_binding_passes_against_header_and_debug_information():
    """Every struct and function of the headers is on both sides."""
    verdict = check_binding()
    assert verdict.status is Status.PASSED
    header, built, table = verdict.parts
    assert header.measurements["n_functions"] == built.measurements["n_functions"] > 10
    assert table.status is Status.PASSED


def test_the_alarms_are_mutants():
    """A wrong value, a fault and a hang, each planted in our own library."""
    assert set(ALARMS) <= {mutant.name for mutant in mutants()}


def test_known_failures_are_tolerated_here_too(tmp_path, monkeypatch):
    """The ledger of the folder that the command runs in reaches every kernel's search."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/known_failures.toml").write_text(ENTRY)
    monkeypatch.chdir(tmp_path)
    seen = []

    def check(_runner, kernel, *, ledger, **_):
        seen.append(ledger.of("hotfire", kernel.operation, "avx2", "agrees_with_reference"))
        return Verdict(name=kernel.operation, status=Status.PASSED)

    monkeypatch.setattr("hotfire.props.sweep.check_kernel", check)
    monkeypatch.setattr("hotfire.props.sweep.n_jobs", lambda _: 1)
    (part,) = _fuzzed("hotfire", "quick", 0, Progress(0))
    assert part.status is Status.PASSED
    assert {each.issue for each in seen if each} == {"#12"}
    assert None in seen


def interrupted(*words):
    """A command that is interrupted once it has measured something, however busy the machine is."""
    for seconds in (10, 30, 90):
        process = subprocess.Popen(
            [sys.executable, "-m", "hotfire", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, out + err
        if "passed   " in out:
            break
    return out


def test_an_interrupted_search_keeps_its_kernels():
    """`props run` too: exit code 130, the table of what was done, and the verdict last."""
    out = interrupted("props", "run", "--profile", "full")
    assert "passed   hotfire" in out
    assert out.splitlines()[-1].startswith("props hotfire: passed")


def test_an_interruption_keeps_what_was_measured(tmp_path):
    """Exit code 130, and both files hold the parts that were completed."""
    interrupted("verify", "--out", str(tmp_path))
    tree = json.loads((tmp_path / "verdict.json").read_text())
    jsonschema.validate(tree, schema())
    assert tree["scope"]["interrupted"] is True
    assert [part["name"] for part in tree["parts"]][:2] == ["binding", "kernels of hotfire"]
    assert any(kernel["verdict"] == "passed" for kernel in tree["parts"][1]["parts"])
    assert "interrupted" in (tmp_path / "verdict.html").read_text()
