"""Third parties' packages, downloaded once into a cache folder and unpacked; never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("HOTFIRE_SUBJECTS", Path.home() / ".cache/hotfire/subjects"))


def _download(command: list[str | Path], folder: Path, what: str) -> Path:
    """The one file that a command leaves in a folder; skips the test if it leaves none."""
    kept = [path for path in folder.glob("*") if path.is_file()]
    if kept:
        return kept[0]
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{what} cannot be had: {command[0]} is not installed")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    kept = [path for path in folder.glob("*") if path.is_file()]
    if done.returncode or not kept:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"{what} cannot be downloaded: {last}")
    return kept[0]


def _unpacked(archive: Path, wanted: tuple[str, ...]) -> Path:
    """The folder of an archive's members whose path has one of the words in it."""
    folder = archive.parent / "unpacked"
    if folder.is_dir():
        return folder
    partial = archive.parent / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            names = [n for n in wheel.namelist() if not wanted or any(w in n for w in wanted)]
            wheel.extractall(partial, names)
    else:
        with tarfile.open(archive) as tar:
            members = [m for m in tar if not wanted or any(w in m.name for w in wanted)]
            tar.extractall(partial, members, filter="data")
    partial.rename(folder)
    return folder


def wheel(requirement: str, *wanted: str) -> Path:
    """A wheel from the package index, unpacked."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    archive = _download([*command, requirement], CACHE / requirement, requirement)
    return _unpacked(archive, wanted)


def sdist(name: str, version: str, *wanted: str) -> Path:
    """A source distribution, unpacked and never built: pip would run its build to read its name."""
    requirement = f"{name}=={version}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"--no-binary={name}"]
    archive = _download([*command, requirement], CACHE / requirement, requirement)
    return _unpacked(archive, wanted)


def debian(package: str) -> Path:
    """A Debian package of the system's own release, unpacked."""
    archive = _download(["apt-get", "download", package], CACHE / package, package)
    folder = archive.parent / "unpacked"
    if not folder.is_dir():
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    return folder


def npm(package: str, *wanted: str) -> Path:
    """An npm package, unpacked."""
    folder = CACHE / package.replace("/", "_")
    return _unpacked(_download(["npm", "pack", "--silent", package], folder, package), wanted)
