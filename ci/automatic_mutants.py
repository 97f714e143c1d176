"""Samples automatic mutants over the kernels' sources, and hunts each: who survives is listed.

    .venv/bin/python ci/automatic_mutants.py [--sample 200] [--seed 0] [--isa avx2] [--jobs 2]

One file is changed, compiled again for one instruction set or for the entry point, and linked with
the objects of the build. A change that does not compile, or leaves the object as it was, is drawn
again; so is one that `ci/equivalent_mutants.toml` argues away if nothing kills it: the sample is of
mutants that count. Which are drawn follows from the seed and each change's own text, so an edit
elsewhere moves nothing. What the first properties do not find in the one instruction set is hunted
by all, in scalar code too, where no lane is masked, and then under AddressSanitizer, as nightly
runs the kernels: past a local array lies no inaccessible page. Fails if less than 95 % are killed.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from mutant_build import ROOT, Build, Source, in_entry_point, sources, written_in

from hotfire.props.automatic import Change, changes
from hotfire.props.execute import Subject
from hotfire.props.mutants import first_kill
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.ref.registry import operations

EQUIVALENT = ROOT / "ci/equivalent_mutants.toml"
LEAST_SHARE = 0.95
SANITIZE = "-fsanitize=address"
N_QUICK = 3
"""Properties that find nearly all: mistakes refused, designed inputs, agreement."""


@dataclass(frozen=True)
class Found:
    """What finds a mutant: property, variant, and the examples it took."""

    stated: str
    variant: str
    n_examples: int


def hunt(
    build: Build, source: Source, text: str, isas: Sequence[str], quick: bool, *options: str
) -> Found | None:
    """Compiles a changed file for some instruction sets, or for the entry point, and hunts there.

    Args:
        build: the last one.
        source: the file.
        text: what it has become.
        isas: the instruction sets; the entry point's code is that of all.
        quick: whether only the first properties hunt it.
        options: for compiler and linker, as for a sanitizer.
    """
    kinds: list[str | None] = [None] if in_entry_point(source, text) else list(isas)
    places = {}
    for kind in kinds:
        made = build.compiled(source, text, kind, *options)
        if made is not None:
            places[made[0]] = kind
    library = build.linked(places, *options)
    environment = sanitizer_environment() if options else {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with Runner(f"hotfire:{library}") as runner:
            subjects = [
                Subject(runner, kernel, operations()[kernel.operation])
                for kernel in runner.kernels
                if kernel.operation in source.operations
                and kernel.variant.partition("-")[0] in isas
            ]
            properties = PROPERTIES[:N_QUICK] if quick else PROPERTIES
            killed = first_kill(subjects, properties, "quick", 0)
    return Found(killed[0], killed[1], killed[2].n_to_failure) if killed else None


@cache
def sanitizer_environment() -> dict[str, str]:
    """What a process needs that loads a library with AddressSanitizer, our signal handlers kept."""
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan", "libstdc++")
    ]
    options = "detect_leaks=0:allow_user_segv_handler=1:handle_segv=0:handle_sigbus=0"
    options += ":handle_abort=0:verify_asan_link_order=0:log_path=/dev/null:abort_on_error=1"
    return {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": options}


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


_BUILD: Build
_ISA: str
_EXCUSED: dict[tuple[str, str, str], str]


def begin(folder: Path, scratch: str, isa: str) -> None:
    """Sets a process up: its own scratch folder."""
    global _BUILD, _ISA, _EXCUSED
    _BUILD = Build(folder, Path(tempfile.mkdtemp(dir=scratch)))
    _ISA, _EXCUSED = isa, excused()


def judge(candidate: Candidate) -> Outcome:
    """Compiles, links and hunts one."""
    source, change = candidate.source, candidate.change
    text = change.applied(source.text)
    kinds: list[str | None] = [None] if in_entry_point(source, text) else [_ISA, "scalar"]
    if all(same_object(source, text, kind) for kind in kinds):
        return Outcome("same", candidate)
    start = time.monotonic()
    found = (
        hunt(_BUILD, source, text, [_ISA], True)
        or hunt(_BUILD, source, text, [_ISA, "scalar"], False)
        or hunt(_BUILD, source, text, [_ISA], True, SANITIZE)
    )
    seconds = time.monotonic() - start
    if found:
        words = (
            f"by {found.stated} in {found.variant}, {found.n_examples} examples, {seconds:.1f} s"
        )
        return Outcome("killed", candidate, words, seconds)
    lines = lines_of(source, change)
    why = _EXCUSED.get((written_in(source, lines[0]), *lines))
    if why:
        return Outcome("equal", candidate, why, seconds)
    return Outcome("SURVIVES", candidate, "\n    ".join(["", *lines]), seconds)


def same_object(source: Source, text: str, kind: str | None) -> bool:
    """Whether a changed file compiles to what it was, or not at all."""
    made = _BUILD.compiled(source, text, kind)
    return made is None or made[1] == _BUILD.original(source, kind)


def outcomes(pool: list[Candidate], isa: str, jobs: int) -> Iterator[Outcome]:
    """What became of each, in order, several at a time."""
    (folder,) = ROOT.glob("build/py3-*")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        multiprocessing.Pool(jobs, begin, (folder, scratch, isa)) as processes,
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
    pool = candidates(options.seed, options.file)
    return sample(pool, options.isa, options.sample, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
