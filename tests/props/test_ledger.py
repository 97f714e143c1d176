"""Known failures: tolerated while they fail and are young, failures themselves otherwise."""

from datetime import date

import pytest

from hotfire.errors import InputError
from hotfire.props.ledger import load
from hotfire.props.runner import Runner
from hotfire.props.search import check_kernel, kernels_of
from hotfire.verdict import Severity, Status

ENTRY = """
[[known]]
operation = "softmax"
provider = "{provider}"
property = "agrees_with_reference"
issue = "#12"
expires = 2027-03-01
reason = "one percent off at seven columns"
launch = {launch}
"""
FAULT = "y[:, 1:2] *= np.float32(1.01) if y.shape[1] == 7 else np.float32(1)"


@pytest.fixture
def verdict_of(adapter, tmp_path):
    """The verdict on one property of an adapter, under a ledger as of a day."""

    def verdict(fault, day, launch="true"):
        provider = adapter(fault)
        path = tmp_path / "known.toml"
        path.write_text(ENTRY.format(provider=provider, launch=launch))
        with Runner(provider) as runner:
            (kernel,) = kernels_of(runner)
            ledger = load(path, day)
            return check_kernel(runner, kernel, only="agrees_with_reference", ledger=ledger)

    return verdict


def test_a_known_failure_is_reported_and_fails_nothing(verdict_of):
    """Its finding stays, as information, with the issue."""
    verdict = verdict_of(FAULT, date(2027, 2, 28))
    assert verdict.status is Status.PASSED
    (found,) = verdict.findings
    assert found.severity is Severity.INFO
    assert "#12" in found.remedy


def test_an_expired_one_fails(verdict_of):
    """From the day on that it names."""
    verdict = verdict_of(FAULT, date(2027, 3, 1))
    assert verdict.status is Status.FAILED
    assert [each.rule for each in verdict.findings] == [
        "agrees_with_reference",
        "known_failure_expired",
    ]


def test_an_unexpected_pass_fails(verdict_of):
    """Or the ledger would hide the next failure."""
    verdict = verdict_of("pass", date(2026, 1, 1))
    assert verdict.status is Status.FAILED
    assert [each.rule for each in verdict.findings] == ["unexpected_pass"]


def test_what_must_not_be_launched_is_not(verdict_of):
    """Nothing was run, and that is no pass."""
    assert verdict_of(FAULT, date(2026, 1, 1), launch="false").status is Status.SKIPPED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[known", "Expected"),
        ('[[known]]\nissue = "#1"', "lacks expires, operation"),
        ("[[known]]\nexpires = 3", "expires = 3"),
        ('[[known]]\nsince = "1970"', "since"),
    ],
)
def test_a_broken_ledger_is_one_clear_error(tmp_path, text, said):
    """With its path."""
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        load(path, date(2026, 1, 1))
