"""The verdict model: precedence, exit codes, JSON."""

import jsonschema
import pytest

from hotfire.verdict import Finding, Severity, Status, Verdict, combine, judge, schema, worst

# Precedence as DESIGN states it, worst first.
PRECEDENCE = ["failed", "crashed", "hung", "unsettled", "mistrusted", "passed"]


def test_worst_follows_the_stated_precedence():
    """Of any two outcomes that were run, the one listed first wins."""
    for i, first in enumerate(PRECEDENCE):
        for second in PRECEDENCE[i:]:
            assert worst([Status(second), Status(first)]) is Status(first)


def test_nothing_run_is_not_a_pass():
    """No part, or only skipped ones, is skipped, with the exit code of nothing run."""
    assert worst([]) is Status.SKIPPED
    assert worst([Status.SKIPPED, Status.SKIPPED]).exit_code == 3


def test_a_skipped_part_hides_neither_a_pass_nor_a_failure():
    """What was run decides."""
    assert worst([Status.SKIPPED, Status.PASSED]) is Status.PASSED
    assert worst([Status.SKIPPED, Status.HUNG]) is Status.HUNG


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("passed", 0),
        ("failed", 1),
        ("crashed", 1),
        ("hung", 1),
        ("unsettled", 3),
        ("mistrusted", 3),
        ("skipped", 3),
    ],
)
def test_exit_codes(status, code):
    """The codes of the command line's contract."""
    assert Status(status).exit_code == code


def test_only_info_does_not_gate():
    """A finding that only informs leaves a pass a pass; any other fails."""
    for severity in Severity:
        found = Finding(rule="R", severity=severity, message="m")
        assert judge([found]) is (Status.PASSED if severity == "info" else Status.FAILED)


def test_json_fits_the_schema_and_comes_back():
    """A tree of verdicts survives the way to JSON and back, and the schema describes it."""
    found = Finding(
        rule="FIELD_OFFSET",
        severity=Severity.SILENT_WRONG,
        message="m",
        remedy="r",
        subject={"record": "params", "field": "n_ctx"},
    )
    leaf = Verdict(name="leaf", status=Status.FAILED, findings=(found,), transitions={"a to b": 3})
    whole = combine("whole", [leaf, Verdict(name="other", status=Status.PASSED)], scope={"x": 1})
    tree = whole.to_json()
    jsonschema.validate(tree, schema())
    assert Verdict.from_json(tree) == whole
    assert tree["findings"] == tree["parts"][0]["findings"]
    assert tree["findings"][0] == {
        "rule": "FIELD_OFFSET",
        "record": "params",
        "field": "n_ctx",
        "severity": "silent-wrong",
        "message": "m",
        "remedy": "r",
    }


@pytest.mark.parametrize("change", [{"verdict": "fine"}, {"findings": [{"rule": "R"}]}, {"x": 1}])
def test_schema_refuses_what_is_no_verdict(change):
    """Unknown outcomes, findings without severity, and unknown keys do not fit."""
    tree = Verdict(name="v", status=Status.PASSED).to_json() | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tree, schema())
