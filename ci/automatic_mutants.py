"""Samples automatic mutants over the kernels' sources, and hunts each: who survives is listed.

    .venv/bin/python ci/automatic_mutants.py [--sample 200] [--seed 0] [--isa avx2]

One file is changed, compiled again for one instruction set or for the entry point, and linked with
the objects of the build. A change that does not compile, or leaves the object as it was, is drawn
again. Survivors that `ci/equivalent_mutants.toml` argues away do not count; fails if less than 95 %
of the others are killed.
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from hotfire.props.automatic import Change, changes
from hotfire.props.execute import Subject
from hotfire.props.mutants import HANG_SECONDS, first_failure
from hotfire.props.runner import Runner
from hotfire.ref.registry import operations

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "native/kernels"
EQUIVALENT = ROOT / "ci/equivalent_mutants.toml"
LEAST_SHARE = 0.95


@dataclass(frozen=True)
class Source:
    """One kernel file, the files of its own that it includes pasted in."""

    path: Path
    text: str
    operations: tuple[str, ...]


def sources() -> list[Source]:
    """The kernel files that define an operation."""
    found = []
    for path in sorted(KERNELS.glob("*.cpp")):
        text = _pasted(path.read_text(encoding="utf-8"))
        names = tuple(
            n for n in re.findall(r"hotfire_status hotfire_(\w+)\(", text) if n in operations()
        )
        found.append(Source(path, text, names))
    return [each for each in found if each.operations]


def _pasted(text: str) -> str:
    """Includes of headers that only kernels of one kind share, such as matmul.hpp, in full."""

    def paste(found: re.Match[str]) -> str:
        path = KERNELS / found[1]
        if not path.is_file() or found[1].startswith(("kernel", "mutant", "simd")):
            return found[0]
        return path.read_text(encoding="utf-8").replace("#pragma once", "")

    return re.sub(r'#include "(\w+\.hpp)"', paste, text)


class Build:
    """The compiler's and the linker's commands of the last build."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch = folder, scratch
        done = subprocess.run(
            ["ninja", "-C", str(folder), "-t", "commands", "native/libhotfire_core.so"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.commands = [
            line for line in done.stdout.splitlines() if "libhotfire_core" in line or " -c " in line
        ]
        self.link = next(
            line for line in self.commands if "-shared" in line and "libhotfire_core.so" in line
        )

    def compiled(self, source: Source, text: str, isa: str | None) -> tuple[str, bytes] | None:
        """The object's place in the build and its bytes, or None if the text does not compile."""
        wanted = f"-DHOTFIRE_ISA={isa} " if isa else "-Dhotfire_core_EXPORTS "
        command = next(
            line for line in self.commands if wanted in line and line.endswith(f" {source.path}")
        )
        changed, made = self.scratch / source.path.name, self.scratch / "changed.o"
        changed.write_text(text, encoding="utf-8")
        # Less optimised than the build: it compiles in half the time, and lets through a few more
        # changes that mean the same.
        dropped = ("-g", "-MD", "-Werror", "-O3", "-O2")
        words = [word for word in shlex.split(command) if word not in dropped]
        place = words[words.index("-o") + 1]
        words[words.index("-o") + 1], words[-1] = str(made), str(changed)
        for option in ("-MT", "-MF"):
            at = words.index(option)
            del words[at : at + 2]
        done = subprocess.run(
            [*words, "-O1", "-w"], cwd=self.folder, capture_output=True, check=False
        )
        return None if done.returncode else (place, made.read_bytes())

    def linked(self, place: str) -> Path:
        """The library with the changed object."""
        library = self.scratch / "libhotfire_core.so"
        command = self.link.split("&&")[1].replace(place, str(self.scratch / "changed.o"))
        words = shlex.split(command)
        words[words.index("-o") + 1] = str(library)
        subprocess.run(words, cwd=self.folder, capture_output=True, check=True)
        return library


def hunt(library: Path, source: Source, isa: str) -> tuple[str, int] | None:
    """The property that finds it and the examples it took, or None."""
    with Runner(f"hotfire:{library}", seconds=HANG_SECONDS) as runner:
        for name in source.operations:
            for kernel in runner.kernels:
                if kernel.operation == name and kernel.variant.partition("-")[0] == isa:
                    found = first_failure(Subject(runner, kernel, operations()[name]), "quick", 0)
                    if found is not None:
                        return found[0], found[1].n_to_failure
    return None


def excused() -> dict[tuple[str, str, str], str]:
    """(file, line, after) -> why no test can tell it from the original."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {(each["file"], each["line"], each["after"]): each["why"] for each in listed}


def lines_of(source: Source, change: Change) -> tuple[str, str]:
    """The line that is changed, before and after."""
    before = source.text.splitlines()[change.line - 1].strip()
    return before, change.applied(source.text).splitlines()[change.line - 1].strip()


def in_entry_point(source: Source, change: Change) -> bool:
    """Whether the change lies in the code that checks arguments, not in the loops."""
    return change.start > source.text.rfind("#else")


def sample(build: Build, isa: str, count: int, seed: int) -> int:
    """Prints one line a mutant, then the survivors; the number of mutants that count against us."""
    rng = random.Random(seed)  # noqa: S311 - a draw, not a secret
    pool = [(source, change) for source in sources() for change in changes(source.text)]
    rng.shuffle(pool)
    originals: dict[tuple[Path, str | None], bytes] = {}
    survivors: list[str] = []
    seconds: list[float] = []
    n_killed = n_equivalent = 0
    why = excused()
    for source, change in pool:
        if n_killed + len(survivors) + n_equivalent == count:
            break
        kind = None if in_entry_point(source, change) else isa
        key = (source.path, kind)
        if key not in originals:
            original = build.compiled(source, source.text, kind)
            assert original is not None, source.path
            originals[key] = original[1]
        made = build.compiled(source, change.applied(source.text), kind)
        if made is None or made[1] == originals[key]:
            continue
        library = build.linked(made[0])
        start = time.monotonic()
        killed = hunt(library, source, isa)
        seconds.append(time.monotonic() - start)
        name = f"{source.path.name} {change}"
        if killed:
            n_killed += 1
            print(
                f"killed   {name}  by {killed[0]} in {killed[1]} examples, {seconds[-1]:.1f} s",
                flush=True,
            )
        elif (source.path.name, *lines_of(source, change)) in why:
            n_equivalent += 1
            print(f"equal    {name}", flush=True)
        else:
            survivors.append("\n    ".join([name, *lines_of(source, change)]))
            print(f"SURVIVES {name}", flush=True)
    counted = n_killed + len(survivors)
    share, middle = n_killed / max(1, counted), statistics.median(seconds)
    print(
        f"\n{n_killed} of {counted} killed ({share:.1%}), median {middle:.1f} s; {n_equivalent} are"
    )
    print("argued to be equivalent. Survivors:")
    print("\n".join(survivors) or "none")
    return int(n_killed < LEAST_SHARE * counted)


def main() -> int:
    """Samples in a scratch folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isa", default="avx2")
    options = parser.parse_args()
    (folder,) = ROOT.glob("build/py3-*")
    with tempfile.TemporaryDirectory() as scratch:
        return sample(Build(folder, Path(scratch)), options.isa, options.sample, options.seed)


if __name__ == "__main__":
    sys.exit(main())
