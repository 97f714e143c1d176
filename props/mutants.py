"""Mutants: our kernels with one fault each, to prove that the properties find it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from hotfire.errors import InputError
from hotfire.props.execute import Subject
from hotfire.props.properties import PROPERTIES, Property, property_named
from hotfire.props.runner import KernelInfo, Runner
from hotfire.props.search import PROFILES, Search, check_kernel, search
from hotfire.ref.registry import operation, operations
from hotfire.verdict import Finding, Severity, Status, Verdict, combine

HANG_SECONDS = 1.0
"""How long a mutant's call may take; healthy calls of the drawn sizes take under a millisecond."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Args:
        name: of the error.
        operation: that it breaks.
        doc: what is wrong, in words.
        library: the provider that has it, switched off.
        provider: the same with it switched on.
    """

    name: str
    operation: str
    doc: str
    library: str
    provider: str


def mutants() -> list[Mutant]:
    """Every mutant of the CPU kernels and of the GPU kernels in the emulator, sorted by name.

    Those of the engine are no kernel's: the engine suites hunt them.
    """
    return sorted(_native() + _emulated(), key=lambda mutant: mutant.name)


def _emulated() -> list[Mutant]:
    from hotfire.props.emulator import Emulator

    return [
        Mutant(name, operation, doc, "emulator", f"emulator:mutant={name}")
        for name, operation, doc in Emulator().mutants()
    ]


def _native() -> list[Mutant]:
    from hotfire import lib

    library = lib.load(lib.MUTANTS)

    def text(value: object) -> str:
        return str(library.ffi.string(value).decode())

    found: list[Mutant] = []
    while (pointer := library.lib.hotfire_mutant_name(len(found))) != library.ffi.NULL:
        index, name = len(found), text(pointer)
        operation = text(library.lib.hotfire_mutant_operation(index))
        doc = text(library.lib.hotfire_mutant_doc(index))
        found.append(Mutant(name, operation, doc, "hotfire-mutants", f"hotfire-mutants:{name}"))
    return [mutant for mutant in found if mutant.operation in operations()]


def named(name: str) -> Mutant:
    """The mutant of that name.

    Raises:
        InputError: if there is none.
    """
    for mutant in mutants():
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in mutants())
    raise InputError(f"mutant {name!r} is not known; expected one of: {known}")


def runner_of(mutant: Mutant) -> Runner:
    """A worker that has the mutant's library loaded, healthy so far."""
    return Runner(mutant.library, seconds=HANG_SECONDS)


def hunt(
    mutant: Mutant,
    profile: str = "quick",
    seed: int = 0,
    runner: Runner | None = None,
    only: str = "",
) -> Verdict:
    """Looks for a mutant in every variant that this machine can run: passed if one finds it.

    The first property that fails, with its variant, its examples and the rule that it named, is in
    the measurements. A runner of the mutant's library may be lent, which saves starting one. Where
    one property is named, `only` that is searched.
    """
    properties = [property_named(only)] if only else PROPERTIES
    with runner_of(mutant) if runner is None else nullcontext(runner) as hunter:
        hunter.select(mutant.name)
        start = time.monotonic()
        subjects = [
            Subject(hunter, kernel, operation(kernel.operation))
            for kernel in hunter.kernels
            if kernel.operation == mutant.operation and not kernel.unavailable
        ]
        killed = first_kill(subjects, properties, profile, seed)
    measurements: dict[str, object] = {"seconds": round(time.monotonic() - start, 3)}
    if killed is not None:
        stated, variant, found = killed
        rule = found.broken.rule if found.broken else ""
        measurements |= {"property": stated, "rule": rule, "n_examples": found.n_to_failure}
        measurements["variant"] = variant
    return Verdict(
        name=mutant.name,
        status=Status.FAILED if killed is None else Status.PASSED,
        scope={"operation": mutant.operation, "fault": mutant.doc, "profile": profile},
        reproduce=f"hotfire props mutants {mutant.name}{f' --property {only}' if only else ''} "
        f"--profile {profile} --seed {seed}",
        findings=(_survival(mutant, only or "any property", profile),) if killed is None else (),
        measurements=measurements,
    )


def first_kill(
    subjects: Sequence[Subject], properties: Sequence[Property], profile: str, seed: int
) -> tuple[str, str, Search] | None:
    """The property and the variant that find a fault first, and the search.

    Each property goes over every variant before the next, dearer one is tried: a fault that one
    arithmetic mode or instruction set has costs little more than one that all have.
    """
    for stated in properties:
        for subject in subjects:
            if stated.applies(subject):
                found = search(subject, stated, PROFILES[profile], seed, make_small=False)
                if found.broken is not None:
                    return stated.name, subject.kernel.variant, found
    return None


def hunt_all(
    wanted: Sequence[tuple[Mutant, str]], profile: str, seed: int, on_done: Callable[[str], None]
) -> Verdict:
    """Checks that the unmutated library passes, then hunts every mutant.

    Args:
        wanted: each mutant, and the one property that must find it, or "" for any.
        profile, seed: of every search.
        on_done: called with each name when it is done.
    """
    parts: list[Verdict] = [_healthy(profile, seed)]
    on_done("healthy")
    for _, group in groupby(sorted(wanted, key=_by_library), key=_by_library):
        alike = list(group)
        with runner_of(alike[0][0]) as runner:
            for mutant, only in alike:
                parts.append(hunt(mutant, profile, seed, runner, only))
                on_done(mutant.name)
    killed = sum(part.status is Status.PASSED for part in parts[1:])
    return combine(
        "mutants",
        parts,
        scope={"profile": profile, "seed": seed},
        reproduce=f"hotfire props mutants --profile {profile} --seed {seed}",
        measurements={
            "n_mutants": len(wanted),
            "n_killed": killed,
            "seconds_median": median(part.measurements["seconds"] for part in parts[1:]),
        },
    )


def _by_library(wanted: tuple[Mutant, str]) -> str:
    return wanted[0].library


def _healthy(profile: str, seed: int) -> Verdict:
    parts: list[Verdict] = []
    for provider in ("hotfire-mutants", "emulator"):
        with Runner(provider) as runner:
            able: Iterator[KernelInfo] = (k for k in runner.kernels if not k.unavailable)
            parts += [check_kernel(runner, kernel, profile=profile, seed=seed) for kernel in able]
    cases = sum(part.measurements["n_cases"] for part in parts)
    return combine("no mutant", parts, measurements={"n_examples": cases})


def _survival(mutant: Mutant, by: str, profile: str) -> Finding:
    return Finding(
        rule="mutant_survives",
        severity=Severity.SILENT_WRONG,
        message=f"{mutant.name} ({mutant.doc}) was not found by {by} at profile {profile}",
        remedy="sharpen a strategy or a bound of the operation, or argue that it is equivalent",
        subject={"operation": mutant.operation, "mutant": mutant.name},
    )
