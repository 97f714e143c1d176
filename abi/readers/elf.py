"""ELF files: what they export, which symbol versions they need, for which machine they are.

pyelftools trusts its input; here everything that a truncated or hostile file makes it raise
becomes one `InputError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hotfire.abi.manifest import Manifest
from hotfire.errors import InputError

Result = TypeVar("Result")

_MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i686",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "armv7",
    "EM_PPC64": "ppc64le",
    "EM_RISCV": "riscv64",
    "EM_S390": "s390x",
}


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The ELF file, opened.

    Raises:
        InputError: if there is none, or it is no ELF.
    """
    from elftools.elf.elffile import ELFFile

    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(
            f"expected a shared library, found no file {path} ({error.strerror})"
        ) from error
    with stream:
        magic = stream.read(4)
        if magic != b"\x7fELF":
            raise InputError(f"{path}: expected an ELF file, got one that starts with {magic!r}")
        stream.seek(0)
        yield guarded(path, lambda: ELFFile(stream))


def guarded(path: Path, work: Callable[[], Result]) -> Result:
    """Runs a reader; whatever damage makes it raise is said once, in words."""
    try:
        return work()
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (Exception, RecursionError) as error:
        raise InputError(
            f"{path}: the file is truncated or damaged ({type(error).__name__}: {error})"
        ) from error


def target_of(file: Any) -> str:
    """The target that an ELF file is for."""
    machine = _MACHINES.get(file["e_machine"], str(file["e_machine"]))
    return f"{machine}-linux"


def exports_of(file: Any) -> tuple[str, ...]:
    """Names of the symbols that it defines for others."""
    section = file.get_section_by_name(".dynsym")
    if section is None:
        return ()
    return tuple(
        sorted(
            {
                symbol.name
                for symbol in limited(section.iter_symbols())
                if symbol.name
                and symbol["st_shndx"] != "SHN_UNDEF"
                and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")
                and symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
            }
        )
    )


def needed_of(file: Any) -> dict[str, tuple[str, ...]]:
    """Versions of symbols that it asks of each library, as `GLIBC_2.38` of libc.so.6."""
    section = file.get_section_by_name(".gnu.version_r")
    if section is None:
        return {}
    return {
        library.name: tuple(sorted(version.name for version in limited(versions)))
        for library, versions in limited(section.iter_versions(), 1 << 10)
    }


def limited(items: Iterable[Result], limit: int = 1 << 20) -> Iterator[Result]:
    """Items of a table whose length the file itself states; a length beyond reason is refused."""
    for count, item in enumerate(items):
        if count >= limit:
            raise InputError(f"a table has more than {limit} entries")
        yield item


def read(path: Path) -> Manifest:
    """A manifest of exports and needed versions alone, for a library without debug information."""
    with opened(path) as file:
        return guarded(
            path,
            lambda: Manifest(
                source="exports",
                target=target_of(file),
                pointer_size=file.elfclass // 8,
                exports=exports_of(file),
                needed=needed_of(file),
            ),
        )
