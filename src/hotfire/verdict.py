"""The verdict model: what a check found, on what it holds, and how to see it again.

Precedence, worst first: failed, crashed, hung, unsettled, mistrusted, skipped, passed. A
skipped part does not hide what the others showed, but a whole of which nothing was run is
`skipped`, never `passed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from typing import Any


class Status(StrEnum):
    """The seven outcomes, in order of precedence."""

    FAILED = "failed"
    CRASHED = "crashed"
    HUNG = "hung"
    UNSETTLED = "unsettled"
    MISTRUSTED = "mistrusted"
    SKIPPED = "skipped"
    PASSED = "passed"

    @property
    def exit_code(self) -> int:
        """0 passed; 1 failed, crashed or hung; 3 unsettled, mistrusted or nothing run."""
        return _EXIT_CODES[self]


_ORDER = list(Status)
_EXIT_CODES = {
    Status.FAILED: 1,
    Status.CRASHED: 1,
    Status.HUNG: 1,
    Status.UNSETTLED: 3,
    Status.MISTRUSTED: 3,
    Status.SKIPPED: 3,
    Status.PASSED: 0,
}


class Severity(StrEnum):
    """How bad a finding is, worst first. The first three gate; `info` is only reported."""

    MEMORY_UNSAFE = "memory-unsafe"
    SILENT_WRONG = "silent-wrong"
    LATENT = "latent"
    INFO = "info"

    @property
    def gates(self) -> bool:
        """Whether a finding of this severity makes a verdict fail."""
        return self is not Severity.INFO


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, in words that a person can act on.

    Args:
        rule: the check's name, for instance `FIELD_OFFSET` or `agrees_with_reference`.
        severity: how bad it is.
        message: what was expected and what came.
        remedy: what to do about it.
        location: file and line, or the function, where it was seen.
        reproduce: the command that shows it again.
        subject: what it is about: `record`, `field`, `function`, `constant`, `mirror`,
            `library` for abi; `operation`, `provider`, `variant`, `case` for props.
    """

    rule: str
    severity: Severity
    message: str
    remedy: str = ""
    location: str = ""
    reproduce: str = ""
    subject: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The finding as one flat object, without empty entries."""
        flat: dict[str, Any] = {"rule": self.rule, **self.subject, "severity": self.severity.value}
        for name in ("message", "remedy", "location", "reproduce"):
            if getattr(self, name):
                flat[name] = getattr(self, name)
        return flat

    @classmethod
    def from_json(cls, flat: Mapping[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        own = ("rule", "severity", "message", "remedy", "location", "reproduce")
        return cls(
            rule=flat["rule"],
            severity=Severity(flat["severity"]),
            message=flat.get("message", ""),
            remedy=flat.get("remedy", ""),
            location=flat.get("location", ""),
            reproduce=flat.get("reproduce", ""),
            subject={key: value for key, value in flat.items() if key not in own},
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one check, or a tree of them, came to.

    Args:
        name: what was checked.
        status: the outcome.
        scope: what it holds for: hashes, versions, shapes, mode, hardware.
        reproduce: the command line that runs it again.
        findings: what was found, `info` included.
        measurements: named figures.
        transitions: counts of the state transitions that were walked.
        reason: for skipped, unsettled and mistrusted, why.
        parts: the verdicts that this one combines.
    """

    name: str
    status: Status
    scope: Mapping[str, Any] = field(default_factory=dict)
    reproduce: str = ""
    findings: tuple[Finding, ...] = ()
    measurements: Mapping[str, Any] = field(default_factory=dict)
    transitions: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    parts: tuple[Verdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The verdict as the JSON object that `verdict.schema.json` describes.

        Its `findings` are its own and those of its parts, so that the top holds all of them.
        """
        return {
            "name": self.name,
            "verdict": self.status.value,
            "reason": self.reason,
            "scope": dict(self.scope),
            "reproduce": self.reproduce,
            "findings": [finding.to_json() for finding in self.all_findings()],
            "measurements": dict(self.measurements),
            "transitions": dict(self.transitions),
            "parts": [part.to_json() for part in self.parts],
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_json`; the tree must already fit the schema."""
        parts = tuple(cls.from_json(part) for part in tree.get("parts", []))
        theirs = [found for part in parts for found in part.all_findings()]
        listed = (Finding.from_json(flat) for flat in tree["findings"])
        return cls(
            name=tree["name"],
            status=Status(tree["verdict"]),
            scope=tree["scope"],
            reproduce=tree["reproduce"],
            findings=tuple(found for found in listed if found not in theirs),
            measurements=tree["measurements"],
            transitions=tree["transitions"],
            reason=tree.get("reason", ""),
            parts=parts,
        )

    def all_findings(self) -> tuple[Finding, ...]:
        """Its own findings, then those of its parts, depth first."""
        return self.findings + tuple(found for part in self.parts for found in part.all_findings())


def worst(statuses: Iterable[Status]) -> Status:
    """The status of a whole: the worst of what was run, `skipped` if nothing was.

    A skipped part counts only where every part was skipped; the rest stands on its own,
    and the scope says what was left out.
    """
    run = [status for status in statuses if status is not Status.SKIPPED]
    return min(run, key=_ORDER.index, default=Status.SKIPPED)


def judge(findings: Iterable[Finding]) -> Status:
    """Failed if any finding gates, else passed."""
    return Status.FAILED if any(found.severity.gates for found in findings) else Status.PASSED


def combine(name: str, parts: Iterable[Verdict], **rest: Any) -> Verdict:
    """One verdict over many, by precedence."""
    kept = tuple(parts)
    return Verdict(name=name, status=worst(part.status for part in kept), parts=kept, **rest)


def schema() -> dict[str, Any]:
    """The JSON schema of a verdict."""
    loaded: dict[str, Any] = json.loads((files("hotfire") / "verdict.schema.json").read_text())
    return loaded
