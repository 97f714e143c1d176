"""Runs one kernel on given inputs and hands back what it wrote, or how it broke its contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hotfire.props.arena import GUARD, PAD_BYTE, Placement
from hotfire.props.case import Case
from hotfire.props.mistakes import Mistake
from hotfire.props.runner import KernelInfo, Outcome, Runner
from hotfire.props.strides import rows_of, spread, told
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operand, Operation, measure
from hotfire.verdict import Severity, Status

WORKSPACE = "workspace"
"""The workspace's name among the pointers of a call."""

WORKSPACE_ALIGNMENT = 64

NOTHING_LEFT: Mapping[str, Bytes] = {}


class Broken(Exception):
    """A property does not hold.

    Args:
        rule: which one.
        message: what was expected and what came.
        status: failed, crashed or hung.
        severity: of the finding.
        stack: native frames, innermost first.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        status: Status = Status.FAILED,
        severity: Severity = Severity.SILENT_WRONG,
        stack: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.status = status
        self.severity = severity
        self.stack = stack


class Unusable(Exception):
    """The adapter or the library would not run a valid case; not the kernel's arithmetic.

    Args:
        message: its words.
        case: which, if known.
    """

    def __init__(self, message: str, case: Case | None = None) -> None:
        super().__init__(message)
        self.case = case


@dataclass(frozen=True)
class Made:
    """One call as it was made.

    Args:
        case: its sizes.
        stored: bytes of each operand before the call; outputs that are not here were poisoned.
        scalars: as passed.
        got: bytes of each output after it; none if it broke its contract.
    """

    case: Case
    stored: Mapping[str, Bytes]
    scalars: Mapping[str, float]
    got: Mapping[str, Bytes]


@dataclass(frozen=True)
class Subject:
    """One kernel of one provider, as properties see it.

    Args:
        runner: the worker that runs it.
        kernel, operation: which; without gaps between rows if the kernel takes none.
        record: takes every call, or None.
    """

    runner: Runner
    kernel: KernelInfo
    operation: Operation
    record: list[Made] | None = None

    def __post_init__(self) -> None:
        if not self.kernel.strided:
            object.__setattr__(self, "operation", self.operation.dense())


def execute(
    subject: Subject,
    case: Case,
    stored: Mapping[str, Bytes],
    scalars: Mapping[str, float],
    leftovers: Mapping[str, Bytes] = NOTHING_LEFT,
) -> dict[str, Bytes]:
    """Runs the kernel on the stored inputs.

    Args:
        subject: the kernel.
        case: its sizes, and where its operands lie.
        stored: bytes of each operand that has values before the call.
        scalars: as passed.
        leftovers: bytes of outputs and of the workspace before the call, which are else poisoned.

    Returns:
        The bytes of each output.

    Raises:
        Broken: if it crashed, hung, refused a valid call, wrote outside its outputs or changed an
            input.
    """
    initial = {**leftovers, **stored}
    places = _place(subject, case, initial)
    if subject.record is not None:
        subject.record.append(Made(case, initial, scalars, {}))
    offsets = {name: place.offset for name, place in places.items()}
    sizes = _with_workspace(told(subject.operation, case), places)
    outcome = subject.runner.call(subject.kernel, offsets, sizes, scalars)
    _check_survived(subject, places, outcome)
    if outcome.kind == "refused":
        raise Broken("accepts_valid_input", f"a valid call was refused: {outcome.message}")
    overwritten = {each.name for each in subject.operation.outputs}
    if case.in_place:
        overwritten |= {each.in_place for each in subject.operation.outputs}
    kept = {name: data for name, data in stored.items() if name not in overwritten}
    _check_untouched(subject, case, places, kept)
    arena = subject.runner.arena
    got = {}
    for each in subject.operation.outputs:
        rows, memory = rows_of(subject.operation, each, case), arena.view(places[each.name])
        got[each.name] = rows.gather(memory) if rows else memory.copy()
    if subject.record is not None:
        subject.record[-1] = replace(subject.record[-1], got=got)
    return got


def workspace_left(subject: Subject, case: Case) -> dict[str, Bytes]:
    """What the last call, of this case, left in its workspace; empty if it has none."""
    if not subject.operation.workspace:
        return {}
    return {WORKSPACE: subject.runner.arena.view(_workspace(subject, case)).copy()}


def execute_mistake(
    subject: Subject, mistake: Mistake, valid: Case, stored: Mapping[str, Bytes]
) -> Outcome:
    """Runs a call that is wrong on purpose, in the memory of the valid case.

    Raises:
        Broken: if it crashed, hung, or wrote anything.
    """
    places = _place(subject, valid, stored)
    offsets: dict[str, int | None] = {name: place.offset for name, place in places.items()}
    if mistake.null:
        offsets[mistake.null] = None
    if mistake.misaligned:
        offsets[mistake.misaligned] = places[mistake.misaligned].offset - 1
    if mistake.overlapping:
        first = subject.operation.inputs[0]
        output = subject.operation.output(mistake.overlapping)
        shift = output.format.block_size if output.in_place == first.name else 0
        offsets[output.name] = places[first.name].offset + shift
    sizes = _with_workspace(told(subject.operation, mistake.case), places)
    if mistake.small_workspace:
        sizes[WORKSPACE] -= WORKSPACE_ALIGNMENT
    outcome = subject.runner.call(subject.kernel, offsets, sizes, mistake.case.scalars)
    _check_survived(subject, places, outcome)
    _check_untouched(subject, valid, places, stored)
    for each in subject.operation.outputs:
        before = _initial(subject, each, valid, stored)
        if not np.array_equal(subject.runner.arena.view(places[each.name]), before):
            raise Broken("writes_nothing_on_failure", f"{each.name} was written by a wrong call")
    return outcome


def _place(subject: Subject, case: Case, stored: Mapping[str, Bytes]) -> dict[str, Placement]:
    """Lays the operands out, fills inputs and pads, poisons outputs."""
    arena = subject.runner.arena
    places: dict[str, Placement] = {}
    for slot, operand in enumerate(subject.operation.operands):
        if case.in_place and operand in subject.operation.outputs and operand.in_place:
            places[operand.name] = places[operand.in_place]
            continue
        initial = _initial(subject, operand, case, stored)
        place = arena.place(slot, initial.size, case.side, operand.format.alignment)
        arena.pad(place)[:] = PAD_BYTE
        arena.view(place)[:] = initial
        places[operand.name] = place
    if subject.operation.workspace:
        place = places[WORKSPACE] = _workspace(subject, case)
        arena.pad(place)[:] = PAD_BYTE
        arena.view(place)[:] = stored.get(WORKSPACE, PAD_BYTE)
    return places


def _with_workspace(sizes: Mapping[str, int], places: Mapping[str, Placement]) -> dict[str, int]:
    """The sizes of a call, and the bytes of its workspace where it has one."""
    return {**sizes, **({WORKSPACE: places[WORKSPACE].n_bytes} if WORKSPACE in places else {})}


def _workspace(subject: Subject, case: Case) -> Placement:
    """A place of a whole number of `WORKSPACE_ALIGNMENT` bytes."""
    asked = measure(subject.operation.workspace, case.sizes)
    n_bytes = -(-asked // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
    slot = len(subject.operation.operands)
    return subject.runner.arena.place(slot, n_bytes, case.side, WORKSPACE_ALIGNMENT)


def _initial(subject: Subject, operand: Operand, case: Case, stored: Mapping[str, Bytes]) -> Bytes:
    """The operand's memory before the call: its values or poison, with poison between its rows."""
    data = stored.get(operand.name)
    if data is None:
        data = operand.format.poison(operand.shape(case.sizes))
    return spread(subject.operation, operand, case, data)


def _check_survived(subject: Subject, places: Mapping[str, Placement], outcome: Outcome) -> None:
    if outcome.kind == "error":
        raise Unusable(outcome.message)
    if outcome.kind == "faulted":
        rule, _, words = outcome.message.partition(": ")
        raise Broken(rule, words, severity=Severity.MEMORY_UNSAFE)
    if outcome.kind == "crashed":
        raise Broken(
            "stays_in_bounds",
            _touched(subject, places, outcome.message),
            status=Status.CRASHED,
            severity=Severity.MEMORY_UNSAFE,
            stack=outcome.stack,
        )
    if outcome.kind == "ended":
        raise Broken("returns", outcome.message, status=Status.CRASHED)
    if outcome.kind == "hung":
        raise Broken("returns", outcome.message, status=Status.HUNG, stack=outcome.stack)


def _touched(subject: Subject, places: Mapping[str, Placement], message: str) -> str:
    """Replaces the address of a fault by the operand that it lies next to."""
    match = re.search(r"(\w+) address=0x([0-9a-f]+) access=(\w+)", message)
    if not match or match[1] not in ("SIGSEGV", "SIGBUS"):
        return message.partition(" address=")[0]
    offset = int(match[2], 16) - subject.runner.crashed_base
    near: list[tuple[int, str]] = []
    for name, place in places.items():
        after = offset - place.offset - place.n_bytes
        before = place.offset - offset
        if 0 <= after < GUARD:
            near.append((after, f"{after} bytes past the end of {name}"))
        if 0 < before <= GUARD:
            near.append((before, f"{before} bytes before {name}"))
    where = min(near)[1] if near else f"at 0x{match[2]}, far from every operand"
    return f"{match[1]}: {match[3]} {where}"


def _check_untouched(
    subject: Subject, case: Case, places: Mapping[str, Placement], inputs: Mapping[str, Bytes]
) -> None:
    arena = subject.runner.arena
    for name in subject.operation.gaps:
        rows = rows_of(subject.operation, subject.operation.operand(name), case)
        gaps = rows.gaps(arena.view(places[name])) if rows else np.empty(0)
        wrong = np.flatnonzero(gaps != PAD_BYTE)
        if wrong.size:
            raise Broken(
                "stays_in_bounds",
                f"{wrong.size} bytes were written between the rows of {name}",
                severity=Severity.MEMORY_UNSAFE,
            )
    for name, place in places.items():
        wrong = np.flatnonzero(arena.pad(place) != PAD_BYTE)
        if wrong.size:
            raise Broken(
                "stays_in_bounds",
                f"{wrong.size} bytes were written next to {name}, outside every operand",
                severity=Severity.MEMORY_UNSAFE,
            )
        if name not in inputs:
            continue
        before = _initial(subject, subject.operation.operand(name), case, inputs)
        if not np.array_equal(arena.view(place), before):
            raise Broken("leaves_inputs_alone", f"the input {name} was changed")
