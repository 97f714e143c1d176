"""A verdict as workflow commands of GitHub Actions, one annotation a finding."""

from __future__ import annotations

from hotfire.report.sarif import place
from hotfire.verdict import Finding, Severity, Verdict

_KINDS = {Severity.LATENT: "warning", Severity.INFO: "notice"}


def render(verdict: Verdict) -> str:
    """The annotations, then the verdict as a plain line."""
    lines = [_annotation(found) for found in verdict.all_findings()]
    return "\n".join([*lines, f"{verdict.name}: {verdict.status.value}"]) + "\n"


def _annotation(found: Finding) -> str:
    file, line = place(found)
    properties = {"title": found.rule} | ({"file": file, "line": str(line)} if file else {})
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    subject = " ".join(found.subject.values())
    message = f"{subject}: {found.message} {found.remedy}".strip()
    return f"::{_KINDS.get(found.severity, 'error')} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
