"""Symbol versions: whether a host, or what a wheel's tag promises, meets a library's needs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator

from hotfire.abi.checks.base import Rule, finding
from hotfire.abi.manifest import Manifest
from hotfire.verdict import Finding, Severity

NEEDED_SYMBOL_VERSION = Rule(
    "NEEDED_SYMBOL_VERSION",
    "the loader refuses the library where the version is missing",
    "build against an older glibc, or raise the wheel's platform tag",
)
RULES = (NEEDED_SYMBOL_VERSION,)

_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_MODERN = re.compile(r"manylinux_(\d+)_(\d+)_")
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")

Version = tuple[int, int]


def host_glibc() -> Version | None:
    """The glibc of this machine; None if it has another C library."""
    name, version = platform.libc_ver()
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if name == "glibc" and match else None


def promised_glibc(wheel: str) -> Version | None:
    """The oldest glibc that a wheel's file name promises to work with; None if it promises none."""
    tag = wheel.removesuffix(".whl").rpartition("-")[2]
    found = [version for name, version in _LEGACY.items() if f"{name}_" in f"{tag}_"]
    found += [(int(major), int(minor)) for major, minor in _MODERN.findall(f"{tag}_")]
    return min(found, default=None)


def needed_glibc(library: Manifest) -> tuple[Version, str] | None:
    """The newest glibc version that a library asks for, and the library that must provide it."""
    found = [
        ((int(match[1]), int(match[2])), source)
        for source, versions in library.needed.items()
        for version in versions
        if (match := _GLIBC.fullmatch(version))
    ]
    return max(found, default=None)


def check_glibc(library: Manifest, name: str, limit: Version, whose: str) -> Iterator[Finding]:
    """A finding if a library needs a newer glibc than there is.

    Args:
        library: with its needed versions.
        name: the file's, for the message.
        limit: the version that there is.
        whose: who has it: this host, or a wheel's tag.
    """
    needed = needed_glibc(library)
    if needed is None or needed[0] <= limit:
        return
    version, source = needed
    wanted, there = f"GLIBC_{version[0]}.{version[1]}", f"{limit[0]}.{limit[1]}"
    yield finding(
        NEEDED_SYMBOL_VERSION,
        Severity.LATENT,
        f"{name} needs {wanted} of {source}; {whose} has {there}",
        file=name,
        needs=wanted,
        mirror=there,
        library=wanted,
    )
