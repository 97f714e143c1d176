"""The exactness gate of the main job: the native engine on nano, and proof that the gate shuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hotfire.engines.exact import check
from hotfire.engines.outcome import WALK
from hotfire.engines.targets import open_engine
from hotfire.engines.tracks import Prompts
from hotfire.errors import InputError, LibraryError
from hotfire.verdict import Finding, Severity, Status, Verdict

REFERENCE, SUBJECT = "numpy:nano", "native:nano,threads=2"
PROMPTS = Prompts(n_prompts=6, length_max=200, n_generated=16)
WAYS = (0, 64, WALK)
FAULTS = ("final_gate_at_wrong_index", "rollback_keeps_state")
"""Planted in a library of its own; both move nano's logits far beyond the bound."""


def gate(step: Callable[[str], object]) -> Iterator[Verdict]:
    """The comparison, then a verdict a planted fault: passed if the comparison finds it.

    Args:
        step: called with a word before each part of the work.
    """
    reproduce = f"hotfire exact {REFERENCE} {SUBJECT} --ubatch 0,64 --walk"
    try:
        with open_engine(REFERENCE) as reference, open_engine(SUBJECT) as engine:
            yield check(reference, engine, PROMPTS, WAYS, reproduce=reproduce, step=step)
    except (InputError, LibraryError) as error:
        yield Verdict(name=f"exact {SUBJECT}", status=Status.SKIPPED, reason=str(error))
        return
    for fault in FAULTS:
        step(fault)
        yield _alarm(f"{SUBJECT},fault={fault}")


def _alarm(target: str) -> Verdict:
    name = f"exact {target} must fail"
    reproduce = f"hotfire exact {REFERENCE} {target} --ubatch 0,64 --walk"
    try:
        with open_engine(REFERENCE) as reference, open_engine(target) as engine:
            every = check(reference, engine, PROMPTS, WAYS).all_findings()
    except LibraryError as error:
        return Verdict(name=name, status=Status.SKIPPED, reason=str(error), reproduce=reproduce)
    found = [each for each in every if each.severity.gates]
    if found:
        rules = " ".join(sorted({finding.rule for finding in found}))
        measurements = {"rules": rules}
        return Verdict(
            name=name, status=Status.PASSED, measurements=measurements, reproduce=reproduce
        )
    missed = Finding(
        rule="ALARM_SILENT",
        severity=Severity.SILENT_WRONG,
        message=f"the planted fault of {target} was not found",
        remedy="the gate proves nothing until it finds it: look at PROMPTS and the bound",
        reproduce=reproduce,
    )
    return Verdict(name=name, status=Status.FAILED, findings=(missed,), reproduce=reproduce)
