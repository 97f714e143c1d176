"""Runs a reader in a process of its own, for mirrors that run their own code when imported.

The child prints one manifest; whatever the mirror itself prints goes to stderr. A mirror that
raises, exits, crashes or hangs costs the child, not the caller.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hotfire.abi import manifest
from hotfire.abi.manifest import Manifest
from hotfire.errors import InputError

SECONDS = 60


def read(module: str, arguments: Sequence[str], what: str, python: str = "") -> Manifest:
    """The manifest that `python -m module arguments` prints.

    Args:
        module: of hotfire, run as a program.
        arguments: its own.
        what: the mirror's name for messages.
        python: the interpreter that has what the mirror imports; "" for this one.

    Raises:
        InputError: if the child gives no manifest, with the last line of what it said.
    """
    with _search_path(python) as path:
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            # The working folder is searched last (`modules.load`): a file in it that is called
            # like a module of Python's own is not that module.
            "PYTHONSAFEPATH": "1",
        }
        try:
            done = subprocess.run(
                [python or sys.executable, "-m", module, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                env=environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise InputError(f"expected an interpreter, cannot run {python}: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"{what}: importing the mirror took longer than {SECONDS} s"
            ) from error
    if done.returncode != 0 or not done.stdout:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        why = said[-1].strip() if said else f"it ended with code {done.returncode}"
        raise InputError(f"{what}: the mirror cannot be imported: {why}")
    return manifest.load(done.stdout, what)


@contextmanager
def _search_path(python: str) -> Iterator[str]:
    """What the child searches: what this process does, or in another interpreter only hotfire.

    Another interpreter must not find this one's packages, which may be built for another Python.
    """
    if not python:
        here = Path.cwd()
        folders = [e for e in sys.path if e and Path(e).is_dir() and Path(e) != here]
        yield os.pathsep.join(folders)
        return
    import hotfire

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hotfire").symlink_to(Path(hotfire.__file__).resolve().parent)
        yield os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))


def take_stdout() -> int:
    """A descriptor for the manifest, after pointing the process's own stdout at stderr."""
    sys.setrecursionlimit(10_000)
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def give(descriptor: int, found: Manifest) -> None:
    """Writes the manifest for the parent, and leaves without the mirror's exit handlers."""
    data = manifest.dump(found, locations=True).encode()
    while data:
        data = data[os.write(descriptor, data) :]
    sys.stderr.flush()
    os._exit(0)
