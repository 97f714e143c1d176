"""Code objects: cubins, AMD code objects bare or bundled, and the emulator's library.

All are ELF files. A kernel leaves two symbols in one, `hotfire_<operation>_kernel` and
`hotfire_<operation>_launch` (native/gpu/device.hpp), so that a code object says by itself what it
computes and how it is launched.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfire.errors import InputError

_MAGIC = b"\x7fELF"
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_PREFIX, _SUFFIX = "hotfire_", "_launch"


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched.

    Args:
        block_size: threads a block.
        rows_per_block: rows of the operation's axis of rows that one block computes.
    """

    block_size: int
    rows_per_block: int

    def n_blocks(self, n_rows: int) -> int:
        """The grid for this many rows; 0 means that nothing is to be launched."""
        return -(-n_rows // self.rows_per_block)


@dataclass(frozen=True)
class CodeObject:
    """One ELF image for one target.

    Args:
        path: the file that it came from.
        target: gfx906, sm_90, or the machine of a host library.
        image: the ELF file's bytes, without a bundle around them.
        launches: operation -> how its kernel is launched.
    """

    path: Path
    target: str
    image: bytes
    launches: dict[str, Launch]

    def elf(self) -> Any:
        """The image, opened by pyelftools."""
        from elftools.elf.elffile import ELFFile

        return ELFFile(io.BytesIO(self.image))


def kernel_symbol(operation: str) -> str:
    """The name under which a code object holds the kernel of an operation."""
    return f"{_PREFIX}{operation}_kernel"


def read(path: Path) -> CodeObject:
    """The one code object in a file.

    Raises:
        InputError: if there is no such file, it is no code object, or it bundles several targets.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"expected a code object: {error}") from error
    images = list(_unbundled(data)) if data.startswith(_BUNDLE) else [data]
    if len(images) != 1 or not images[0].startswith(_MAGIC):
        raise InputError(
            f"{path}: expected an ELF file or a bundle of one, found {len(images)} images; "
            "compile for one target at a time"
        )
    found = CodeObject(path, "", images[0], {})
    try:
        return CodeObject(path, _target(found.elf()), images[0], dict(_launches(found.elf())))
    except InputError:
        raise
    except Exception as error:  # pyelftools trusts its input: damage raises whatever it meets
        raise InputError(
            f"{path}: truncated or damaged ({type(error).__name__}: {error})"
        ) from error


def _unbundled(data: bytes) -> Iterator[bytes]:
    """The device images of a clang offload bundle: a count, then (offset, size, name) of each."""
    try:
        (count,) = struct.unpack_from("<Q", data, len(_BUNDLE))
        at = len(_BUNDLE) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, at)
            name = data[at + 24 : at + 24 + length]
            at += 24 + length
            if size and not name.startswith(b"host"):
                yield data[offset : offset + size]
    except struct.error as error:
        raise InputError(f"the bundle is truncated: {error}") from error


def _target(elf: Any) -> str:
    machine = elf["e_machine"]
    if machine == "EM_CUDA" or machine == 190:
        return f"sm_{elf['e_flags'] >> 8 & 0xFF}"
    if machine == "EM_AMDGPU" or machine == 224:
        return str(amd_metadata(elf)["amdhsa.target"]).partition("--")[2]
    return str(machine)


def amd_metadata(elf: Any) -> dict[str, Any]:
    """The metadata note of an AMD code object (LLVM's AMDGPUUsage, code object V3 and later).

    Raises:
        InputError: if it has none.
    """
    from hotfire.device import msgpack

    section = elf.get_section_by_name(".note")
    data = section.data() if section is not None else b""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + _aligned(name_size)
        if kind == 32 and data[at + 12 : at + 12 + name_size].rstrip(b"\0") == b"AMDGPU":
            metadata: dict[str, Any] = msgpack.decode(data[start : start + size])
            return metadata
        at = start + _aligned(size)
    raise InputError("expected an AMD code object with a metadata note, found none")


def _aligned(size: int) -> int:
    return -(-size // 4) * 4


def _launches(elf: Any) -> Iterator[tuple[str, Launch]]:
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        name = symbol.name
        is_record = symbol["st_info"]["type"] == "STT_OBJECT"
        if not (is_record and name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
            continue
        section = elf.get_section(symbol["st_shndx"])
        at = symbol["st_value"] - section["sh_addr"]
        words = struct.unpack_from("<II", section.data(), at)
        yield name[len(_PREFIX) : -len(_SUFFIX)], Launch(*words)
