"""Samples automatic mutants over the kernels' sources, and hunts each: who survives is listed.

    .venv/bin/python ci/automatic_mutants.py [--sample 200] [--seed 0] [--isa avx2] [--jobs 2]

One file is changed, compiled again for one instruction set or for the entry point, and linked with
the objects of the build. A change that does not compile, or leaves the object as it was, is drawn
again; so is one that `ci/equivalent_mutants.toml` argues away if nothing kills it: the sample is of
mutants that count. Which are drawn follows from the seed and each change's own text, so an edit
elsewhere moves nothing. What the first properties do not find in the one instruction set is hunted
by all, in scalar code too, where no lane is masked, and then under AddressSanitizer and
ThreadSanitizer, as nightly runs the kernels: past a local array lies no inaccessible page, and two
threads that compute the same make no wrong value. Fails if less than 95 % are killed.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import sanitizers
from mutant_build import ROOT, Build, Source, in_entry_point, sources, written_in

from hotfire.props.automatic import Change, changes
from hotfire.props.execute import Subject
from hotfire.props.mutants import first_kill
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.ref.registry import operations

EQUIVALENT = ROOT / "ci/equivalent_mutants.toml"
LEAST_SHARE = 0.95
N_QUICK = 3
"""Properties that find nearly all: mistakes refused, designed inputs, agreement."""


@dataclass(frozen=True)
class Found:
    """What finds a mutant: property, variant, and the examples it took."""

    stated: str
    variant: str
    n_examples: int


@dataclass(frozen=True)
class Stage:
    """One way to hunt a mutant.

    Args:
        build: what is compiled again and linked.
        provider: what loads a library of that name.
        isas: the instruction sets that are compiled and searched.
        n_properties: how many of the properties hunt it, the first ones.
        sanitizer: "address", "thread" or "".
        options: for compiler and linker.
    """

    build: Build
    provider: str
    isas: tuple[str, ...]
    n_properties: int
    sanitizer: str = ""
    options: tuple[str, ...] = ()


def hunt(stage: Stage, source: Source, text: str) -> Found | None:
    """Compiles a changed file, links it and searches its operations."""
    kinds = [None] if in_entry_point(source, text) else list(stage.isas)
    places = {}
    for kind in kinds:
        made = stage.build.compiled(source, text, kind, *stage.options)
        if made is not None:
            places[made[0]] = kind
    library = stage.build.linked(places, *stage.options)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(stage.sanitizer).items():
            patch.setenv(name, value)
        with Runner(f"{stage.provider}{library}", seconds=60 if stage.sanitizer else 5) as runner:
            subjects = [
                Subject(runner, kernel, operations()[kernel.operation])
                for kernel in runner.kernels
                if kernel.operation in source.operations
                and kernel.variant.partition("-")[0] in stage.isas
            ]
            killed = first_kill(subjects, PROPERTIES[: stage.n_properties], "quick", 0)
    return Found(killed[0], killed[1], killed[2].n_to_failure) if killed else None


@cache
def environment(sanitizer: str) -> dict[str, str]:
    """What a process needs that loads a library under a sanitizer, which is not to say much."""
    return sanitizers.environment(sanitizer, ":log_path=/dev/null") if sanitizer else {}


def excused() -> dict[tuple[str, str, str], str]:
    """(file, line, after) -> why no test can tell it from the original. The file is where the line
    is written, which may be a header that several kernels share.
    """
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {(each["file"], each["line"], each["after"]): each["why"] for each in listed}


def lines_of(source: Source, change: Change) -> tuple[str, str]:
    """The line that is changed, before and after."""
    before = source.text.splitlines()[change.line - 1].strip()
    return before, change.applied(source.text).splitlines()[change.line - 1].strip()


@dataclass(frozen=True)
class Candidate:
    """One change to one file."""

    source: Source
    change: Change

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.source.path.name} {self.change}"


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate: "killed", "SURVIVES", "equal" (argued) or "same" (no change)."""

    kind: str
    candidate: Candidate
    words: str = ""
    seconds: float = 0


def candidates(seed: int, file: str) -> list[Candidate]:
    """Every change there is to the kernels' files, in the order of a seed."""
    keyed = []
    for source in sources():
        seen: Counter[tuple[str, str]] = Counter()
        for change in changes(source.text):
            lines = lines_of(source, change)
            seen[lines] += 1
            text = f"{seed} {source.path.name} {lines} {seen[lines]}"
            key = hashlib.sha256(text.encode()).digest()
            if file in ("", source.path.name):
                keyed.append((key, Candidate(source, change)))
    return [each for _, each in sorted(keyed, key=lambda pair: pair[0])]


_STAGES: list[Stage]
_EXCUSED: dict[tuple[str, str, str], str]


def begin(scratch: str, isa: str) -> None:
    """Sets a process up: its own scratch folder."""
    global _STAGES, _EXCUSED
    _EXCUSED = excused()
    sanitizers.keep_addresses_free()
    own = Path(tempfile.mkdtemp(dir=scratch))
    (folder,) = ROOT.glob("build/py3-*")
    plain = Build(folder, own / "plain", "native/libhotfire_core.so")
    asan = Build(folder, own / "asan", "native/libhotfire_core.so")
    tsan = Build(ROOT / "build/sanitized-thread", own / "tsan", "libhotfire_mutants.so")
    _STAGES = [
        Stage(plain, "hotfire:", (isa,), N_QUICK),
        Stage(plain, "hotfire:", (isa, "scalar"), len(PROPERTIES)),
        Stage(asan, "hotfire:", (isa,), N_QUICK, "address", ("-fsanitize=address",)),
        Stage(tsan, "hotfire-mutants:@", (isa,), N_QUICK, "thread"),
    ]


def judge(candidate: Candidate) -> Outcome:
    """Compiles, links and hunts one."""
    source, change = candidate.source, candidate.change
    text = change.applied(source.text)
    kinds = [None] if in_entry_point(source, text) else list(_STAGES[1].isas)
    if all(same_object(source, text, kind) for kind in kinds):
        return Outcome("same", candidate)
    start = time.monotonic()
    for stage in _STAGES:
        found = hunt(stage, source, text)
        if found:
            seconds = time.monotonic() - start
            words = f"by {found.stated} in {found.variant} {stage.sanitizer}".rstrip()
            words += f", {found.n_examples} examples, {seconds:.1f} s"
            return Outcome("killed", candidate, words, seconds)
    seconds = time.monotonic() - start
    lines = lines_of(source, change)
    why = _EXCUSED.get((written_in(source, lines[0]), *lines))
    if why:
        return Outcome("equal", candidate, why, seconds)
    return Outcome("SURVIVES", candidate, "\n    ".join(["", *lines]), seconds)


def same_object(source: Source, text: str, kind: str | None) -> bool:
    """Whether a changed file compiles to what it was, or not at all."""
    build = _STAGES[0].build
    made = build.compiled(source, text, kind)
    return made is None or made[1] == build.original(source, kind)


def outcomes(pool: list[Candidate], isa: str, jobs: int) -> Iterator[Outcome]:
    """What became of each, in order, several at a time."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        multiprocessing.Pool(jobs, begin, (scratch, isa)) as processes,
    ):
        yield from processes.imap(judge, pool)


def sample(pool: list[Candidate], isa: str, count: int, jobs: int) -> int:
    """Prints one line a mutant, then the survivors; 1 if too many of those that count survive."""
    found: list[Outcome] = []
    n_counted = 0
    start = time.monotonic()
    for outcome in outcomes(pool, isa, jobs):
        if outcome.kind != "same":
            found.append(outcome)
            print(f"{outcome.kind:8} {outcome.candidate.name}  {outcome.words}", flush=True)
        n_counted += outcome.kind in ("killed", "SURVIVES")
        if n_counted == count:
            break
    kinds = Counter(each.kind for each in found)
    share = kinds["killed"] / max(1, n_counted)
    middle = statistics.median(each.seconds for each in found)
    minutes = (time.monotonic() - start) / 60
    print(f"\n{kinds['killed']} of {n_counted} killed ({share:.1%}), median {middle:.1f} s, in")
    print(f"{minutes:.0f} minutes; {kinds['equal']} more are argued to be equivalent. Survivors:")
    for each in found:
        if each.kind == "SURVIVES":
            print(each.candidate.name + each.words)
    return int(kinds["killed"] < LEAST_SHARE * n_counted)


def main() -> int:
    """Samples, several mutants at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--file", default="", help="only changes to this file")
    options = parser.parse_args()
    sanitizers.build("thread")
    pool = candidates(options.seed, options.file)
    return sample(pool, options.isa, options.sample, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
