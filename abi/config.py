"""`hotfire.toml`: a library named once, with its headers, targets, mirrors and waivers.

    [abi.libraries.llama]
    headers = ["include/llama.h"]
    include = ["include", "ggml/include"]
    defines = ["NDEBUG"]                      # or compile_commands and source
    targets = ["x86_64-linux", "aarch64-linux"]
    library = "build/libllama.so"
    mirrors = ["ctypes:binding/low_level.py"]
    names = { LlamaBatch = "llama_batch" }    # records that a mirror calls otherwise
    manifest = "abi/llama.{target}.json"      # committed; a change in it is a finding
    baseline = "abi/llama.baseline.json"      # findings that are known

    [[abi.libraries.llama.waivers]]
    rule = "FIELD_MISSING"
    record = "llama_opt_params"
    reason = "the binding never trains"
    expires = 2027-01-31

Paths are relative to the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from hotfire.errors import InputError

NAME = "hotfire.toml"
_KEYS = {
    "headers": list,
    "include": list,
    "defines": list,
    "compile_commands": str,
    "source": str,
    "language": str,
    "targets": list,
    "library": str,
    "mirrors": list,
    "names": dict,
    "python": str,
    "manifest": str,
    "baseline": str,
    "waivers": list,
}


@dataclass(frozen=True)
class Waiver:
    """A latent finding that somebody decided to live with, until a day.

    Args:
        wanted: what a finding must be to match: `rule`, and any of its subject's words.
        reason: why it is acceptable.
        expires: the last day on which it counts.
    """

    wanted: Mapping[str, str]
    reason: str
    expires: date

    @property
    def shown(self) -> str:
        """How messages name it."""
        return " ".join(f"{key}={value}" for key, value in self.wanted.items())


@dataclass(frozen=True)
class Library:
    """One library of a project, and what mirrors it; `folder` is what its paths start from."""

    name: str
    folder: Path
    headers: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    compile_commands: Path | None = None
    source: str = ""
    language: str = "c"
    targets: tuple[str, ...] = ()
    library: Path | None = None
    mirrors: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    manifest: str = ""
    baseline: Path | None = None
    waivers: tuple[Waiver, ...] = ()


def load(path: Path) -> list[Library]:
    """The libraries of a `hotfire.toml`.

    Raises:
        InputError: if it cannot be read, names none, or has a key or a value that is unknown.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"expected {path}, cannot read it: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    libraries = tree.get("abi", {}).get("libraries", {})
    if not isinstance(libraries, dict) or not libraries:
        raise InputError(f"{path}: expected at least one table [abi.libraries.NAME], found none")
    return [_library(path, name, libraries[name]) for name in sorted(libraries)]


def _library(path: Path, name: str, tree: Any) -> Library:
    where = f"{path}: [abi.libraries.{name}]"
    if not isinstance(tree, dict):
        raise InputError(f"{where}: expected a table, got {tree!r}")
    for key, value in tree.items():
        if key not in _KEYS:
            raise InputError(f"{where}: unknown key {key!r}; known are {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise InputError(
                f"{where}: expected {key} to be a {_KEYS[key].__name__}, got {value!r}"
            )
    for key in ("headers", "include", "defines", "targets", "mirrors"):
        if not all(isinstance(item, str) for item in tree.get(key, ())):
            raise InputError(f"{where}: expected {key} to hold strings, got {tree[key]!r}")
    folder = path.resolve().parent

    def paths(key: str) -> tuple[Path, ...]:
        return tuple(folder / item for item in tree.get(key, ()))

    def one(key: str) -> Path | None:
        return folder / tree[key] if key in tree else None

    return Library(
        name=name,
        folder=folder,
        headers=paths("headers"),
        include=paths("include"),
        defines=tuple(tree.get("defines", ())),
        compile_commands=one("compile_commands"),
        source=tree.get("source", ""),
        language=tree.get("language", "c"),
        targets=tuple(tree.get("targets", ())),
        library=one("library"),
        mirrors=tuple(_side(folder, side) for side in tree.get("mirrors", ())),
        names=tree.get("names", {}),
        python=tree.get("python", ""),
        manifest=tree.get("manifest", ""),
        baseline=one("baseline"),
        waivers=tuple(_waiver(where, item) for item in tree.get("waivers", ())),
    )


def _side(folder: Path, side: str) -> str:
    """A side whose file is relative to the project's folder."""
    kind, colon, rest = side.partition(":")
    path = folder / (rest if colon else side)
    if not path.exists():
        return side
    return f"{kind}:{path}" if colon else str(path)


def _waiver(where: str, tree: Any) -> Waiver:
    if not isinstance(tree, dict):
        raise InputError(f"{where}: expected a waiver to be a table, got {tree!r}")
    rest = dict(tree)
    reason, expires = rest.pop("reason", ""), rest.pop("expires", None)
    if not isinstance(reason, str) or not reason.strip() or not isinstance(expires, date):
        raise InputError(
            f"{where}: expected a waiver to have a reason and a date, such as "
            f"`expires = 2027-01-31`, got {tree!r}"
        )
    if "rule" not in rest or not all(isinstance(value, str) for value in rest.values()):
        raise InputError(f"{where}: expected a waiver to name a rule and strings, got {tree!r}")
    return Waiver(rest, reason.strip(), expires)
