"""Names of targets: the few spellings of the same machine become one."""

from __future__ import annotations

import platform
import sys

from hotfire.errors import InputError

_ARCH = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "x86": "i686",
    "armv7l": "armv7",
    "armv7a": "armv7",
    "arm": "armv7",
    "powerpc64le": "ppc64le",
    "riscv64gc": "riscv64",
}
_TRIPLES = {"ppc64le": "powerpc64le", "armv7": "armv7a"}
_SYSTEMS = ("linux", "windows", "macos", "wasi", "freebsd")


def normal(triple: str) -> str:
    """`arch-os` of a target triple; Windows keeps its environment, as layouts depend on it."""
    arch, *rest = triple.lower().split("-")
    words = "-".join(rest)
    arch = _ARCH.get(arch, arch)
    if "darwin" in words or "macos" in words or "apple" in words:
        return f"{arch}-macos"
    if "windows" in words or "mingw" in words:
        return f"{arch}-windows-{'gnu' if 'gnu' in words or 'mingw' in words else 'msvc'}"
    for system in _SYSTEMS:
        if system in words:
            return f"{arch}-{system}"
    return f"{arch}-{rest[-1] if rest else 'unknown'}"


def triple(target: str) -> str:
    """The triple that a compiler takes for a target, from its short or its long name."""
    arch, _, system = normal(target).partition("-")
    arch = _TRIPLES.get(arch, arch)
    if system.startswith("windows"):
        return f"{arch}-pc-windows-{system.rpartition('-')[2]}"
    if system == "macos":
        return f"{'arm64' if arch == 'aarch64' else arch}-apple-macosx11.0"
    if system == "linux":
        return f"{arch}-linux-{'gnueabihf' if arch.startswith('armv7') else 'gnu'}"
    return target


def host() -> str:
    """The target of this machine."""
    names = {"linux": "linux", "darwin": "macos", "win32": "windows-msvc"}
    system = names.get(sys.platform, sys.platform)
    arch = platform.machine().lower()
    return f"{_ARCH.get(arch, arch)}-{system}"


def require_same(mirror: str, library: str) -> None:
    """Refuses a comparison of two machines.

    Raises:
        InputError: if both sides name a target and the two differ.
    """
    if mirror and library and mirror != library:
        raise InputError(
            f"expected both sides to describe one target, got {mirror} for the mirror and "
            f"{library} for the library; pass --target, or read both for the same machine"
        )
