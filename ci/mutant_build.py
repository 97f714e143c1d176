"""Compiles one changed kernel file and links it with the objects of the last build."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hotfire.ref.registry import operations

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "native/kernels"
_INCLUDE = re.compile(r'#include "(\w+\.hpp)"')


@dataclass(frozen=True)
class Source:
    """One kernel file, the files of its own that it includes pasted in."""

    path: Path
    text: str
    operations: tuple[str, ...]
    headers: tuple[str, ...]


def sources() -> list[Source]:
    """The kernel files that define an operation."""
    found = []
    for path in sorted(KERNELS.glob("*.cpp")):
        own = path.read_text(encoding="utf-8")
        text = _pasted(own)
        names = tuple(
            n for n in re.findall(r"hotfire_status hotfire_(\w+)\(", text) if n in operations()
        )
        found.append(Source(path, text, names, tuple(_INCLUDE.findall(own))))
    return [each for each in found if each.operations]


def _pasted(text: str) -> str:
    """Includes of headers that only kernels of one kind share, such as matmul.hpp, in full."""

    def paste(found: re.Match[str]) -> str:
        path = KERNELS / found[1]
        if not path.is_file() or found[1].startswith(("kernel", "mutant", "simd")):
            return found[0]
        return path.read_text(encoding="utf-8").replace("#pragma once", "")

    return _INCLUDE.sub(paste, text)


class Build:
    """The compiler's and the linker's commands of the last build, without debug information.

    Args:
        folder: of the build.
        scratch: a folder of its own.
        target: the library, as the build names its file.
    """

    def __init__(self, folder: Path, scratch: Path, target: str) -> None:
        self.folder, self.scratch = folder, scratch
        scratch.mkdir(exist_ok=True)
        self.name = Path(target).name
        ninja = str(Path(sys.executable).parent / "ninja")
        done = subprocess.run(
            [ninja, "-C", str(folder), "-t", "commands", target],
            capture_output=True,
            text=True,
            check=True,
        )
        self.commands = [
            line for line in done.stdout.splitlines() if self.name in line or " -c " in line
        ]
        self.link = next(line for line in self.commands if "-shared" in line and self.name in line)
        self._originals: dict[tuple[Path, str | None], bytes] = {}
        self._objects = {
            word: self._stripped(index, word)
            for index, word in enumerate(shlex.split(self.link))
            if word.endswith(".o")
        }

    def _stripped(self, index: int, place: str) -> str:
        """A copy of a built object without its debug information, which links in no time."""
        copy = self.scratch / f"{index}.o"
        subprocess.run(["strip", "-g", "-o", str(copy), str(self.folder / place)], check=True)
        return str(copy)

    def original(self, source: Source, isa: str | None) -> bytes:
        """The object of the unchanged file."""
        key = (source.path, isa)
        if key not in self._originals:
            made = self.compiled(source, source.text, isa)
            assert made is not None, source.path
            self._originals[key] = made[1]
        return self._originals[key]

    def compiled(
        self, source: Source, text: str, isa: str | None, *options: str
    ) -> tuple[str, bytes] | None:
        """The object's place in the build and its bytes, or None if the text does not compile."""
        wanted = f"-DHOTFIRE_ISA={isa} " if isa else "_EXPORTS "
        command = next(
            line for line in self.commands if wanted in line and line.endswith(f" {source.path}")
        )
        changed, made = self.scratch / source.path.name, self.scratch / f"changed-{isa}.o"
        changed.write_text(text, encoding="utf-8")
        dropped = ("-g", "-MD", "-Wall", "-Wextra", "-Werror", "-Winvalid-pch")
        words = [word for word in shlex.split(command) if word not in dropped]
        place = words[words.index("-o") + 1]
        words[words.index("-o") + 1], words[-1] = str(made), str(changed)
        for option in ("-MT", "-MF"):
            at = words.index(option)
            del words[at : at + 2]
        if "-include" in words:
            at = words.index("-include") + 1
            words[at] = str(self._intrinsics(words))
        words += ["-w", *options]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, check=False)
        return None if done.returncode else (place, made.read_bytes())

    def _intrinsics(self, words: list[str]) -> Path:
        """The header of intrinsics, compiled once for these options."""
        header = self.scratch / "intrinsics.hpp"
        if not header.is_file():
            header.write_text("#include <immintrin.h>\n", encoding="utf-8")
            at = words.index("-include")
            options = [*words[:at], *words[at + 2 : words.index("-o")], "-w"]
            made = ["-x", "c++-header", str(header), "-o", f"{header}.gch"]
            subprocess.run([*options, *made], cwd=self.folder, check=True)
        return header

    def linked(self, places: dict[str, str | None], *options: str) -> Path:
        """The library with changed objects.

        Args:
            places: where in the build each lies -> the instruction set that it was compiled for.
            options: for the linker.
        """
        library = self.scratch / self.name
        changed = {place: str(self.scratch / f"changed-{isa}.o") for place, isa in places.items()}
        objects = self._objects | changed
        words = [objects.get(word, word) for word in shlex.split(self.link.split("&&")[1])]
        words[words.index("-o") + 1] = str(library)
        subprocess.run([*words, *options], cwd=self.folder, capture_output=True, check=True)
        return library


def written_in(source: Source, line: str) -> str:
    """The file that a line of a source comes from: its own, or a header pasted into it."""
    if line in source.path.read_text(encoding="utf-8"):
        return source.path.name
    headers = (path for path in sorted(KERNELS.glob("*.hpp")) if path.name in source.headers)
    return next(path.name for path in headers if line in path.read_text(encoding="utf-8"))


def in_entry_point(source: Source, text: str) -> bool:
    """Whether a change lies in the code that checks arguments, not in the loops."""
    entry = source.text.rfind("#else")
    return text[:entry] == source.text[:entry]
