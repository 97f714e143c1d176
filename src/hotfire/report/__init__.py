"""Shows a verdict: text, JSON, HTML, SARIF, JUnit, GitHub annotations."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hotfire.errors import InputError
from hotfire.verdict import Verdict, schema

FORMATS = ("text", "json", "html", "sarif", "junit", "github")


def render(verdict: Verdict, form: str) -> str:
    """The verdict in one of `FORMATS`.

    Raises:
        InputError: if the format is not known.
    """
    if form not in FORMATS:
        raise InputError(f"format {form!r} is not known; expected one of: {', '.join(FORMATS)}")
    if form == "json":
        return json.dumps(_finite(verdict.to_json()), indent=2, allow_nan=False) + "\n"
    renderer: Callable[[Verdict], str] = import_module(f"hotfire.report.{form}").render
    return renderer(verdict)


def _finite(tree: Any) -> Any:
    """The same with words for inf and nan, which JSON has no numbers for."""
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_finite(value) for value in tree]
    return str(tree) if isinstance(tree, float) and not math.isfinite(tree) else tree


def read(path: Path) -> Verdict:
    """Reads a verdict that was written as JSON.

    Raises:
        InputError: if the file cannot be read, is not JSON, or does not fit the schema.
    """
    import jsonschema

    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(tree, schema())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    except jsonschema.ValidationError as error:
        raise InputError(
            f"{path} is not a verdict: at {error.json_path}: {error.message}"
        ) from error
    return Verdict.from_json(tree)


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or not at all.

    Raises:
        InputError: if it cannot be written.
    """
    whole = path.parent / f".{path.name}.{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
