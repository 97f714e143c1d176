"""Every format says the same, and none lets text out of its place."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from hotfire import report
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity, Status, Verdict, combine

NASTY = "<script>alert(1)</script> & \x1b[31m \x00 [bold]% ::error::"


@pytest.fixture
def verdict():
    """A failed whole whose texts try to break out."""
    found = Finding(
        rule="RULE",
        severity=Severity.MEMORY_UNSAFE,
        message=NASTY,
        remedy="mend\nit",
        location="native/a.cpp:12",
        subject={"operation": NASTY},
    )
    failed = Verdict(name="part", status=Status.FAILED, findings=(found,))
    skipped = Verdict(name="other", status=Status.SKIPPED, reason="no such device")
    return combine("whole", [failed, skipped], scope={"text": NASTY}, reproduce="hotfire verify")


def test_html_escapes_everything_and_fetches_nothing(verdict):
    """The page has no script, no link and no unescaped text."""
    page = report.render(verdict, "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_json_comes_back_through_a_file(verdict, tmp_path):
    """What `--format json` writes, `hotfire report` reads."""
    path = tmp_path / "deep" / "verdict.json"
    report.write_whole(path, report.render(verdict, "json"))
    assert report.read(path) == verdict
    assert [each.name for each in path.parent.iterdir()] == ["verdict.json"]


def test_json_has_words_for_what_is_no_number_of_its():
    """So that any reader of JSON can read it."""
    figures = {"worst": float("inf"), "kl": float("nan"), "all": [1.5, float("-inf")]}
    text = report.render(Verdict(name="x", status=Status.FAILED, measurements=figures), "json")
    tree = json.loads(text, parse_constant=pytest.fail)
    assert tree["measurements"] == {"worst": "inf", "kl": "nan", "all": [1.5, "-inf"]}


def test_text_ends_with_the_verdict(verdict):
    """The last line is the verdict; markup in texts stays text."""
    text = report.render(verdict, "text")
    assert text.splitlines()[-1] == "whole: failed"
    assert "[bold]" in text


def test_sarif_has_rule_level_and_place(verdict):
    """One result with its file and line."""
    run = json.loads(report.render(verdict, "sarif"))["runs"][0]
    (result,) = run["results"]
    assert result["ruleId"] == "RULE"
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "native/a.cpp"}, "region": {"startLine": 12}}


def test_junit_counts_failures_and_skips(verdict):
    """A part is a test case; text that XML forbids is replaced."""
    suite = ElementTree.fromstring(report.render(verdict, "junit"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")


def test_github_annotations_stay_on_one_line(verdict):
    """A line break or a percent sign in a message cannot start another command."""
    lines = report.render(verdict, "github").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("::error title=RULE,file=native/a.cpp,line=12::")
    assert "%0Ait" in lines[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "x"}', "[" * 100_000])
def test_a_file_that_is_no_verdict_gives_one_clear_error(tmp_path, text):
    """Neither broken JSON nor another document is taken."""
    path = tmp_path / "verdict.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"verdict\.json"):
        report.read(path)
