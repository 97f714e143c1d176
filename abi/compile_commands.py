"""`compile_commands.json`: the defines and folders that a library is really built with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotfire.abi.sources import Reading
from hotfire.abi.target import normal
from hotfire.errors import InputError


def apply(reading: Reading, path: Path, source: str = "") -> Reading:
    """A reading with the defines, folders and target of a build added.

    Args:
        reading: what was given by hand; it comes first.
        path: of the compile_commands.json.
        source: the end of one source file's path; "" if all files are built with the same defines.

    Raises:
        InputError: if the file cannot be read, has no such source, or its files disagree.
    """
    entries = [entry for entry in _entries(path) if entry["file"].endswith(source)]
    if not entries:
        raise InputError(f"{path}: expected a source that ends with {source!r}, found none")
    found = [_flags(entry) for entry in entries]
    defines = {flags[0] for flags in found}
    if len(defines) > 1:
        every = {define for each in defines for define in each}
        some = sorted(define for define in every if not all(define in each for each in defines))
        raise InputError(
            f"{path}: its sources are built with different defines ({', '.join(some[:5])}); name "
            "the source that counts"
        )
    targets = {flags[2] for flags in found if flags[2]}
    if len(targets) > 1:
        raise InputError(f"{path}: contradictory targets {', '.join(sorted(targets))}")
    target = next(iter(targets), "")
    if reading.target and target and normal(reading.target) != normal(target):
        raise InputError(f"{path} is for {target}, which contradicts --target {reading.target}")
    folders = dict.fromkeys(folder for flags in found for folder in flags[1] if folder.is_dir())
    return replace(
        reading,
        defines=(*reading.defines, *next(iter(defines))),
        include=(*reading.include, *folders),
        target=reading.target or target,
    )


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"expected {path}, cannot read it: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    usable = isinstance(tree, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        and ("command" in entry or "arguments" in entry)
        for entry in tree
    )
    if not usable:
        raise InputError(f"{path}: expected a list of compilations with file and command")
    return list(tree)


def _flags(entry: dict[str, Any]) -> tuple[tuple[str, ...], tuple[Path, ...], str]:
    words = entry.get("arguments") or shlex.split(entry["command"])
    base = Path(entry.get("directory", "."))
    pairs = list(_pairs(words))
    defines = tuple(value for flag, value in pairs if flag == "-D")
    folders = tuple(base / value for flag, value in pairs if flag in ("-I", "-isystem"))
    return defines, folders, next((value for flag, value in pairs if flag == "--target"), "")


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values, whether written as one word or as two."""
    rest = iter(words)
    for word in rest:
        for flag in ("-D", "-I", "-isystem", "--target=", "-target"):
            if word.startswith(flag):
                value = word.removeprefix(flag) or next(rest, "")
                name = "--target" if flag in ("--target=", "-target") else flag
                yield name, value
                break
