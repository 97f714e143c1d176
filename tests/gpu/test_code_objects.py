"""What is read from code objects: metadata, occupancy, how a kernel is launched."""

import pytest

from hotfire.device import code_object, msgpack
from hotfire.device.occupancy import amd_waves_per_simd, cuda_warps_per_sm
from hotfire.errors import InputError
from hotfire.lib import path
from hotfire.props.emulator import LIBRARY


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"\x05", 5),
        (b"\xff", -1),
        (b"\xc0", None),
        (b"\xc3", True),
        (b"\xcd\x01\x00", 256),
        (b"\xd2\xff\xff\xff\xfe", -2),
        (b"\xcb\x3f\xf8" + bytes(6), 1.5),
        (b"\xa2ab", "ab"),
        (b"\xd9\x03abc", "abc"),
        (b"\xc4\x02\x00\x01", b"\x00\x01"),
        (b"\x92\x01\xa1x", [1, "x"]),
        (b"\xdc\x00\x01\xc2", [False]),
        (b"\x81\xa1k\x90", {"k": []}),
        (b"\xde\x00\x01\x01\x02", {1: 2}),
    ],
)
def test_msgpack_reads_what_the_specification_says(data, want):
    """One value of each kind."""
    assert msgpack.decode(data) == want


@pytest.mark.parametrize("data", [b"", b"\x92\x01", b"\xda\x00\x05ab", b"\xc1", b"\xa1\xff"])
def test_msgpack_refuses_damage(data):
    """With one error."""
    with pytest.raises(InputError):
        msgpack.decode(data)


@pytest.mark.parametrize(
    ("target", "vgprs", "sgprs", "lds_bytes", "want"),
    [
        ("gfx906", 14, 24, 32, 10),
        ("gfx906", 34, 54, 128, 7),
        ("gfx906", 32, 18, 128, 8),
        ("gfx906", 8, 8, 32768, 2),
        ("gfx906", 257, 8, 0, 0),
        ("gfx1100", 55, 46, 128, 16),
        ("gfx1100", 97, 8, 0, 12),
        ("gfx90a", 8, 8, 0, 0),
    ],
)
def test_amd_occupancy_is_the_compilers(target, vgprs, sgprs, lds_bytes, want):
    """The first rows but those limited by LDS are what clang 15 printed for such kernels."""
    assert amd_waves_per_simd(target, vgprs, sgprs, lds_bytes, 256) == want


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "want"),
    [(32, 0, 64), (40, 128, 48), (255, 0, 8), (32, 49152, 32)],
)
def test_cuda_occupancy_is_the_calculators(registers, shared_bytes, want):
    """Blocks of 256 threads."""
    assert cuda_warps_per_sm(registers, shared_bytes, 256) == want


def test_a_library_says_how_its_kernels_are_launched():
    """The record that the kernel's source leaves, and nothing that only looks like one."""
    found = code_object.read(path(LIBRARY)).launches
    assert sorted(found) == ["matvec_bf16", "matvec_q8_0", "rms_norm"]
    assert found["matvec_bf16"] == code_object.Launch(256, 4)
    assert [found["matvec_bf16"].n_blocks(n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
