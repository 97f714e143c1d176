"""Writing files: whole or not at all, and only if that changes them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hotfire.errors import InputError


def write(path: Path, text: str) -> None:
    """Writes a text file; one that already says the same keeps its time: nothing is rebuilt.

    Raises:
        InputError: if it cannot be written.
    """
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as out:
            out.write(text)
        Path(out.name).chmod(0o644)
        os.replace(out.name, path)  # noqa: PTH105 - the name for an atomic replacement
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be written: {error}") from error
