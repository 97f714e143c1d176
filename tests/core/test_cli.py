"""The command line's contract: help, exit codes, one clear error for bad input."""

import subprocess
import sys

import pytest


def hotfire(*words, **options):
    """Runs the command in a fresh process."""
    return subprocess.run(
        [sys.executable, "-m", "hotfire", *words],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_help_names_every_command_and_the_exit_codes():
    """The first thing that a newcomer sees."""
    done = hotfire("--help")
    assert done.returncode == 0
    for word in ("abi", "evidence", "props", "report", "verify", "130"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["props", "run", "no_such_operation"], "no_such_operation"),
        (["props", "run", "--provider", "no_such_provider"], "no_such_provider"),
        (["props", "run", "--provider", "/nowhere/adapter.py"], "/nowhere/adapter.py"),
        (["props", "run", "softmax", "--variant", "sse9"], "sse9"),
        (["props", "run", "softmax", "--property", "is_nice"], "is_nice"),
        (["props", "run", "softmax", "--case", "n_cols=-3"], "n_cols=-3"),
        (["props", "run", "softmax", "--case", "colour=red"], "colour=red"),
        (["props", "run", "--case", "n_cols=3"], "exactly one operation"),
        (["props", "run", "matvec_q8_0", "--case", "n_cols=33"], "multiple of 32"),
        (["props", "mutants", "no_such_mutant"], "no_such_mutant"),
        (["report", "/nowhere/verdict.json"], "/nowhere/verdict.json"),
        (["evidence", "withdraw", "123", "--reason", "x", "--log", "/nowhere.jsonl"], "123"),
        (["fly"], "fly"),
    ],
)
def test_bad_input_is_one_clear_error(words, named):
    """Exit code 2, the offending word in the message, no traceback."""
    done = hotfire(*words)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_twice_agrees_with_itself():
    """A seed determines a run: a second one in a fresh process finds the same."""
    done = hotfire("props", "run", "softmax", "--variant", "scalar", "--twice")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs: 2" in done.stdout
    assert "RUNS_DISAGREE" not in done.stdout


def test_an_allowed_outcome_exits_zero():
    """`--allow skipped` makes a run of nothing acceptable, and only that."""
    words = ["props", "run", "softmax", "--provider", "hotfire", "--variant", "avx512"]
    done = hotfire(*words)
    if done.returncode == 0:
        pytest.skip("this machine has AVX-512: nothing is skipped")
    assert done.returncode == 3
    assert hotfire(*words, "--allow", "skipped").returncode == 0
    assert hotfire(*words, "--allow", "unsettled").returncode == 3
