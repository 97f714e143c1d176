"""Findings that do not gate: waived for a while with a reason, or known in a baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from hotfire.abi.checks.base import Rule, finding
from hotfire.abi.config import Waiver
from hotfire.errors import InputError
from hotfire.verdict import Finding, Severity

WAIVER_EXPIRED = Rule(
    "WAIVER_EXPIRED", "the day until which it was accepted is past", "correct it, or decide again"
)
WAIVER_UNUSED = Rule("WAIVER_UNUSED", "what it waived is gone", "remove the waiver")
WAIVER_REFUSED = Rule(
    "WAIVER_REFUSED",
    "only what is latent can be waived; this corrupts memory or results now",
    "correct the mirror, or record it in a baseline",
)
SCHEMA = 1


def waive(findings: Iterable[Finding], waivers: Sequence[Waiver], today: date) -> list[Finding]:
    """Findings with the waived ones turned to info, and what is wrong with the waivers."""
    kept: list[Finding] = []
    for found in findings:
        waiver = next((each for each in waivers if matches(found, each)), None)
        if waiver is None or not found.severity.gates:
            kept.append(found)
        elif found.severity is not Severity.LATENT:
            kept += [found, _about(WAIVER_REFUSED, waiver, f"{found.rule} is {found.severity}")]
        elif waiver.expires < today:
            kept += [found, _about(WAIVER_EXPIRED, waiver, f"it expired on {waiver.expires}")]
        else:
            note = f"{found.message} (waived until {waiver.expires}: {waiver.reason})"
            kept.append(replace(found, severity=Severity.INFO, message=note))
    return kept


def unused(waivers: Sequence[Waiver], findings: Sequence[Finding]) -> Iterator[Finding]:
    """A finding for each waiver that matches nothing any more."""
    for waiver in waivers:
        if not any(matches(found, waiver) for found in findings):
            yield _about(WAIVER_UNUSED, waiver, "nothing matches it")


def matches(found: Finding, waiver: Waiver) -> bool:
    """Whether a waiver is about a finding."""
    words = {"rule": found.rule, **found.subject}
    return all(words.get(key) == value for key, value in waiver.wanted.items())


def _about(rule: Rule, waiver: Waiver, why: str) -> Finding:
    message = f"the waiver {waiver.shown}: {why}"
    return finding(rule, Severity.INFO, message, waiver=waiver.shown)


def key_of(found: Finding) -> dict[str, Any]:
    """What makes two findings of two runs the same one: the rule and the subject, not the words."""
    return {"rule": found.rule, **found.subject}


def baseline_text(findings: Iterable[Finding]) -> str:
    """The JSON text of a baseline: every finding that gates, sorted."""
    known = [key_of(found) for found in findings if found.severity.gates]
    known.sort(key=lambda key: json.dumps(key, sort_keys=True))
    lines = ",\n".join(f"    {json.dumps(key, sort_keys=True)}" for key in known)
    body = f"[\n{lines}\n  ]" if known else "[]"
    return f'{{\n  "schema": {SCHEMA},\n  "findings": {body}\n}}\n'


def read_baseline(path: Path) -> list[dict[str, Any]]:
    """The findings that a baseline knows.

    Raises:
        InputError: if it cannot be read or is no baseline.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"expected the baseline {path}, cannot read it: {error.strerror}; write it with "
            "--write-baseline"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    known = tree.get("findings") if isinstance(tree, dict) else None
    if not isinstance(known, list) or tree.get("schema") != SCHEMA:
        raise InputError(f"{path}: expected a baseline of schema {SCHEMA}, got other JSON")
    return known


def without_known(findings: Iterable[Finding], known: Sequence[dict[str, Any]]) -> list[Finding]:
    """Findings with those that a baseline knows turned to info."""
    return [
        replace(found, severity=Severity.INFO, message=f"{found.message} (known in the baseline)")
        if found.severity.gates and key_of(found) in known
        else found
        for found in findings
    ]
