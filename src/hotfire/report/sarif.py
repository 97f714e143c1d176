"""A verdict as SARIF 2.1.0 (OASIS standard), for code-scanning services."""

from __future__ import annotations

import json
import re
from typing import Any

from hotfire import __version__
from hotfire.verdict import Finding, Severity, Verdict

_LEVELS = {
    Severity.MEMORY_UNSAFE: "error",
    Severity.SILENT_WRONG: "error",
    Severity.LATENT: "warning",
    Severity.INFO: "note",
}


def render(verdict: Verdict) -> str:
    """One run with one result a finding."""
    findings = verdict.all_findings()
    rules = sorted({found.rule for found in findings})
    run = {
        "tool": {
            "driver": {
                "name": "hotfire",
                "version": __version__,
                "rules": [{"id": rule} for rule in rules],
            }
        },
        "results": [_result(found) for found in findings],
        "properties": {"verdict": verdict.status.value, "reproduce": verdict.reproduce},
    }
    tree = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(tree, indent=2) + "\n"


def place(found: Finding) -> tuple[str, int]:
    """File and line of a finding's location, "" and 0 if it has none."""
    match = re.match(r"^(?P<file>[^:]+(?:\.[^:]+)):(?P<line>\d+)", found.location)
    return (match["file"], int(match["line"])) if match else ("", 0)


def _result(found: Finding) -> dict[str, Any]:
    text = found.message + (f"\nRemedy: {found.remedy}" if found.remedy else "")
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "level": _LEVELS[found.severity],
        "message": {"text": text},
        "properties": {**found.subject, "severity": found.severity.value},
    }
    file, line = place(found)
    if file:
        region = {"startLine": max(line, 1)}
        result["locations"] = [
            {"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}
        ]
    return result
