"""How many waves of a kernel a GPU holds at once, computed from what the compiler allotted.

Sources: AMD's ISA documents for Vega 7nm and RDNA3, LLVM's AMDGPU target; NVIDIA's occupancy
calculator for compute capability 9.0. No figure here was read from a device.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _AmdTarget:
    """Registers of a SIMD in lanes of one wave, LDS of the unit that shares it, and grain sizes."""

    wave_size: int
    vgprs: int
    vgpr_grain: int
    sgprs: int
    sgpr_grain: int
    waves_max: int
    lds_bytes: int
    lds_grain: int
    simds: int


_AMD = {
    # Four SIMDs share a compute unit's 64 KiB.
    "gfx906": _AmdTarget(64, 256, 4, 800, 16, 10, 65536, 512, 4),
    # Four SIMDs share a workgroup processor's 128 KiB; each wave has its own 128 SGPRs.
    "gfx1100": _AmdTarget(32, 1536, 24, 0, 1, 16, 131072, 1024, 4),
}


def amd_waves_per_simd(target: str, vgprs: int, sgprs: int, lds_bytes: int, block_size: int) -> int:
    """Waves that one SIMD holds, limited by registers and by the LDS of whole blocks.

    0 for a target that is not known.
    """
    if target not in _AMD:
        return 0
    chip = _AMD[target]
    waves = min(chip.waves_max, chip.vgprs // _aligned(max(vgprs, 1), chip.vgpr_grain))
    if chip.sgprs:
        waves = min(waves, chip.sgprs // _aligned(max(sgprs, 1), chip.sgpr_grain))
    if lds_bytes:
        blocks = chip.lds_bytes // _aligned(lds_bytes, chip.lds_grain)
        waves = min(waves, blocks * (block_size // chip.wave_size) // chip.simds)
    return waves


def cuda_warps_per_sm(registers: int, shared_bytes: int, block_size: int) -> int:
    """Warps that one multiprocessor of sm_90 holds, in whole blocks.

    64 warps, 65536 registers in grains of 256 a warp over four partitions, 228 KiB of shared
    memory of which each block takes 1 KiB more than it asks for, 32 blocks.
    """
    warps = block_size // 32
    by_registers = 65536 // 4 // _aligned(registers * 32, 256) * 4 // warps
    by_shared = 228 * 1024 // (shared_bytes + 1024)
    return min(64 // warps, 32, by_registers, by_shared) * warps


def _aligned(size: int, grain: int) -> int:
    return -(-size // grain) * grain
