"""The model of a target as a GGUF file, for the engines that open one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hotfire.errors import InputError
from hotfire.ref.models import gguf_file
from hotfire.ref.models.config import Config
from hotfire.ref.models.load import load


def digest(path: Path) -> str:
    """The first 12 digits of a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


@contextmanager
def as_file(model: str, sizes: dict[str, int], dtype: str) -> Iterator[tuple[Path, Config, str]]:
    """A model's file, its configuration, and what its weights are stored as.

    Args:
        model: a .gguf file, taken as it is; or what `load` knows, written to a temporary file.
        sizes: of a probe.
        dtype: of a temporary file; "" for that of the weights.

    Raises:
        InputError: if there is no such model, or an option does not apply to it.
    """
    if model.endswith(".gguf"):
        if sizes or dtype:
            option = "dtype" if dtype else next(iter(sizes))
            raise InputError(f"{option}: a file is taken as it is")
        config, stored = gguf_file.outline(Path(model))
        yield Path(model), config, stored
        return
    config, weights = load(model, sizes)
    dtype = dtype or weights["embed_tokens.weight"].dtype
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        gguf_file.write(path, config, weights, dtype)
        yield path, config, dtype
