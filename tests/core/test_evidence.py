"""The evidence log is append-only, and says so when it was not kept so."""

import json

import pytest
from click.testing import CliRunner

from hotfire import evidence
from hotfire.cli import main
from hotfire.errors import InputError


@pytest.fixture
def log(tmp_path):
    """A log with two figures."""
    path = tmp_path / "figures.jsonl"
    for value in (1.5, 2.5):
        evidence.append(
            path, {"figure": "speed", "value": value, "unit": "GB/s", "command": "bench"}
        )
    return path


def test_entries_come_back_with_commit_and_machine(log):
    """Every line says when, where and from which commit it is."""
    first, second = evidence.read(log)
    assert (first.record["value"], second.record["value"]) == (1.5, 2.5)
    assert first.record["machine"]["n_cores"] >= 1
    assert first.record["commit"]
    assert first.id != second.id


def test_an_edited_line_is_noticed(log):
    """The line after a changed one no longer follows from it."""
    lines = log.read_text().splitlines()
    changed = json.loads(lines[0]) | {"value": 9.0}
    log.write_text("\n".join([json.dumps(changed, sort_keys=True), lines[1]]) + "\n")
    with pytest.raises(InputError, match="append-only"):
        evidence.read(log)


def test_a_removed_line_is_noticed(log):
    """Deleting the first line breaks the chain too."""
    log.write_text(log.read_text().splitlines()[1] + "\n")
    with pytest.raises(InputError, match="does not follow"):
        evidence.read(log)


def test_withdrawing_keeps_the_line_and_needs_a_reason(log):
    """A withdrawn figure stays in the file, marked with the reason."""
    first, second = evidence.read(log)
    with pytest.raises(InputError, match="reason"):
        evidence.append(log, {"withdraws": first.id, "reason": " "})
    evidence.append(log, {"withdraws": first.id, "reason": "L2 was warm"})
    read = evidence.read(log)
    assert [entry.withdrawn for entry in read] == ["L2 was warm", "", ""]
    with pytest.raises(InputError, match="no standing figure"):
        evidence.append(log, {"withdraws": first.id, "reason": "again"})
    assert second.id == read[1].id


def test_the_command_lists_what_stands(log):
    """`evidence list` hides withdrawn figures unless asked."""
    first = evidence.read(log)[0]
    runner = CliRunner()
    arguments = ["evidence", "withdraw", first.id, "--reason", "wrong clock", "--log", str(log)]
    assert runner.invoke(main, arguments).exit_code == 0
    shown = runner.invoke(main, ["evidence", "list", "--log", str(log)]).output
    assert "speed = 2.5 GB/s" in shown
    assert "1.5" not in shown
    everything = runner.invoke(main, ["evidence", "list", "--all", "--log", str(log)]).output
    assert "withdrawn: wrong clock" in everything


def test_the_committed_log_is_whole():
    """The repository's own evidence reads without a complaint."""
    from hotfire.cli.evidence import DEFAULT_LOG

    evidence.read(DEFAULT_LOG)
