"""What compiled kernels take of a GPU, and whether it is what the committed manifest says.

`python -m hotfire.device.resources check|write --manifest FILE CODE_OBJECT...`, run by CMake. A
manifest was read from code objects, never from a device: it says what the compiler allotted, and
the occupancy is computed from that.

The limits hold always: no spill, no scratch, no more shared memory than a block may have. All
other figures must be equal where the same compiler made them; another version may allot registers
differently, and then the limits alone are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hotfire.device.code_object import CodeObject, amd_metadata, kernel_symbol, read
from hotfire.device.occupancy import amd_waves_per_simd, cuda_warps_per_sm
from hotfire.errors import HotfireError, InputError

Figures = dict[str, int]
Manifest = dict[str, Any]

_AMD_LIMITS = {"scratch_bytes": 0, "vgpr_spills": 0, "sgpr_spills": 0, "lds_bytes": 65536}
_CUDA_LIMITS = {"stack_bytes": 0, "shared_bytes": 49152}
"""The greatest figure allowed. In a cubin a spill is part of the stack frame, which ptxas does not
tell from a local array; neither is wanted."""

_NONE: Manifest = {"target": "nothing", "compiler": "", "kernels": {}}

_RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each block from sm_90 on."""

_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11
"""Attributes of the section .nv.info, as cuobjdump names them."""


def manifest_of(objects: Sequence[CodeObject]) -> Manifest:
    """The figures of every kernel in code objects of one target and compiler.

    Raises:
        InputError: if targets or compilers are mixed, or none is given.
    """
    targets = sorted({each.target for each in objects})
    compilers = sorted({compiler_of(each) for each in objects})
    if len(targets) != 1 or len(compilers) != 1:
        raise InputError(
            f"expected code objects of one target and compiler, got {', '.join(targets)} by "
            f"{', '.join(compilers)}"
        )
    kernels = {name: found for each in objects for name, found in figures_of(each)}
    return {
        "target": targets[0],
        "compiler": compilers[0],
        "evidence": "static: read from the code object",
        "kernels": dict(sorted(kernels.items())),
    }


def compiler_of(code: CodeObject) -> str:
    """The compiler that a code object names, with its version.

    The newest of several: the libraries linked in were compiled by an older one.
    """
    data = b" ".join(
        section.data()
        for section in code.elf().iter_sections()
        if section.name in (".comment", ".note.nv.tkinfo")
    )
    for name, pattern in (("clang", rb"clang version "), ("ptxas", rb"release [\d.]+, V")):
        versions = re.findall(pattern + rb"(\d+)\.(\d+)\.(\d+)", data)
        if versions:
            newest = max(tuple(map(int, version)) for version in versions)
            return f"{name} {'.'.join(map(str, newest))}"
    return "unknown"


def figures_of(code: CodeObject) -> Iterator[tuple[str, Figures]]:
    """(operation, figures) of each kernel.

    Raises:
        InputError: if the target is neither AMD's nor NVIDIA's.
    """
    if code.target.startswith("gfx"):
        return _amd_figures(code)
    if code.target.startswith("sm_"):
        return _cuda_figures(code)
    raise InputError(f"{code.path}: expected a GPU's code object, got one for {code.target}")


def _amd_figures(code: CodeObject) -> Iterator[tuple[str, Figures]]:
    described = {each[".name"]: each for each in amd_metadata(code.elf())["amdhsa.kernels"]}
    for operation, launch in code.launches.items():
        kernel = described[kernel_symbol(operation)]
        found = {
            "wave_size": kernel[".wavefront_size"],
            "vgprs": kernel[".vgpr_count"],
            "sgprs": kernel[".sgpr_count"],
            "vgpr_spills": kernel[".vgpr_spill_count"],
            "sgpr_spills": kernel[".sgpr_spill_count"],
            "scratch_bytes": kernel[".private_segment_fixed_size"],
            "lds_bytes": kernel[".group_segment_fixed_size"],
        }
        waves = amd_waves_per_simd(
            code.target, found["vgprs"], found["sgprs"], found["lds_bytes"], launch.block_size
        )
        yield operation, {**found, "occupancy_waves_per_simd": waves}


def _cuda_figures(code: CodeObject) -> Iterator[tuple[str, Figures]]:
    elf = code.elf()
    symbols = [symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()]
    reserved = _RESERVED_SHARED * (".nv.reservedSmem.offset0" in symbols)
    values = dict(_attributes(elf.get_section_by_name(".nv.info").data()))
    for operation, launch in code.launches.items():
        name = kernel_symbol(operation)
        index = symbols.index(name)
        shared = elf.get_section_by_name(f".nv.shared.{name}")
        found = {
            "registers": values[_REGISTER_COUNT, index],
            "stack_bytes": values.get((_FRAME_SIZE, index), 0),
            "shared_bytes": max(0, shared["sh_size"] - reserved) if shared is not None else 0,
        }
        warps = cuda_warps_per_sm(found["registers"], found["shared_bytes"], launch.block_size)
        yield operation, {**found, "occupancy_warps_per_sm": warps}


def _attributes(data: bytes) -> Iterator[tuple[tuple[int, int], int]]:
    """((attribute, symbol), value) of the sized entries; an entry is format, attribute, size."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            if size == 8:
                symbol, value = struct.unpack_from("<II", data, at)
                yield (attribute, symbol), value
            at += size


def differences(want: Manifest, got: Manifest) -> list[str]:
    """What is wrong with `got`, a line each: limits, then what the manifest says otherwise."""
    limits = _AMD_LIMITS if got["target"].startswith("gfx") else _CUDA_LIMITS
    found = list(_over_limits(limits, got))
    if want["target"] != got["target"]:
        return [*found, f"target: the manifest is for {want['target']}, got {got['target']}"]
    names = sorted(set(want["kernels"]) ^ set(got["kernels"]))
    found += [
        f"{name}: in the {'manifest' if name in want['kernels'] else 'code objects'} alone"
        for name in names
    ]
    if want["compiler"] == got["compiler"]:
        found += _changes(want["kernels"], got["kernels"])
    return found


def _over_limits(limits: Mapping[str, int], got: Manifest) -> Iterator[str]:
    for name, figures in got["kernels"].items():
        for figure, most in limits.items():
            if figures[figure] > most:
                yield f"{name}: {figure} is {figures[figure]}, the limit is {most}"


def _changes(want: Mapping[str, Figures], got: Mapping[str, Figures]) -> Iterator[str]:
    for name in sorted(set(want) & set(got)):
        for figure in sorted(set(want[name]) | set(got[name])):
            old, new = want[name].get(figure, "absent"), got[name].get(figure, "absent")
            if old != new:
                yield f"{name}: {figure} is {new}, the manifest says {old}"


def check(manifest: Path, objects: Sequence[Path]) -> int:
    """Compares code objects with a manifest; prints what differs. 0 if nothing does, else 1."""
    got = manifest_of([read(path) for path in objects])
    want = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else _NONE
    found = differences(want, got)
    for line in found:
        print(f"hotfire: {got['target']}: {line}", file=sys.stderr)
    if found:
        print(
            f"change the kernel back, or write the manifest anew and commit it:\n"
            f"  python -m hotfire.device.resources write --manifest {manifest} "
            + " ".join(map(str, objects)),
            file=sys.stderr,
        )
    elif want["compiler"] != got["compiler"]:
        print(f"{got['target']}: limits alone, by {got['compiler']} and not {want['compiler']}")
    return 1 if found else 0


def write(manifest: Path, objects: Sequence[Path]) -> int:
    """Writes the manifest of code objects."""
    text = json.dumps(manifest_of([read(path) for path in objects]), indent=2)
    manifest.write_text(text + "\n", encoding="utf-8")
    return 0


def main(words: Sequence[str] | None = None) -> NoReturn:
    """The program: exits 0 if all agree, 1 on a difference, 2 on bad input."""
    parser = argparse.ArgumentParser(prog="hotfire.device.resources", description=__doc__)
    parser.add_argument("verb", choices=["check", "write"])
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("objects", type=Path, nargs="+")
    arguments = parser.parse_args(words)
    work = check if arguments.verb == "check" else write
    try:
        sys.exit(work(arguments.manifest, arguments.objects))
    except HotfireError as error:
        print(f"hotfire: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
