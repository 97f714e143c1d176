"""Failures kept on disk: the case and every byte of its operands, to run again or to hand on.

A file holds what `case` says, and the bytes themselves: it stays the same failure when the way
cases are drawn changes. `fill=file:PATH` in a case's text takes the operands from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotfire.errors import HotfireError, InputError
from hotfire.props.case import Case, draw_inputs, parse, saved
from hotfire.ref.operation import Operation
from hotfire.ref.registry import operation
from hotfire.verdict import Finding


@dataclass(frozen=True)
class Saved:
    """A failure that was kept.

    Args:
        path: of its file.
        operation, provider, variant, property: what failed.
        case: as text, its fill the file.
    """

    path: Path
    operation: str
    provider: str
    variant: str
    property: str
    case: str


def save(findings: Iterable[Finding], folder: Path) -> list[Path]:
    """Writes a file for each finding on a case; returns the paths."""
    paths = []
    for found in findings:
        about = found.subject
        if about.get("case") and not about.get("case", "").count("mistake="):
            op = operation(about["operation"])
            paths.append(_save(folder, op, dict(about), parse(op, about["case"])))
    return paths


def _save(folder: Path, op: Operation, about: dict[str, str], case: Case) -> Path:
    inputs = draw_inputs(op, case)
    digest = hashlib.sha256("".join(map(str, sorted(about.items()))).encode()).hexdigest()[:8]
    path = folder / f"{about['operation']}-{about['variant']}-{about['property']}-{digest}.npz"
    folder.mkdir(parents=True, exist_ok=True)
    about |= {"scalars": json.dumps(inputs.scalars)}
    arrays: dict[str, Any] = {"_about": np.array(json.dumps(about)), **inputs.stored}
    np.savez_compressed(path, **arrays)
    return path


def read(path: Path) -> Saved:
    """What a file is about.

    Raises:
        InputError: if it is no file of this kind.
    """
    about = saved(path)[0]
    try:
        op = operation(about["operation"])
        case = parse(op, about["case"])
        kind = "exact" if case.is_designed else "file"
        text = str(case).replace(f"fill={case.fill},", f"fill={kind}:{path},")
        return Saved(path, op.name, about["provider"], about["variant"], about["property"], text)
    except (HotfireError, KeyError) as error:
        raise InputError(f"{path}: not a saved failure of this version: {error}") from error


def files(paths: Iterable[Path]) -> list[Path]:
    """The files named, and those in the folders named.

    Raises:
        InputError: if there are none.
    """
    found = [
        each for path in paths for each in (sorted(path.glob("*.npz")) if path.is_dir() else [path])
    ]
    if not found:
        raise InputError("no saved failures there")
    return found
