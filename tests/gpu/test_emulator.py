"""The emulator names each fault, and only that; kernels pass the properties at both widths."""

import ctypes
import struct

import numpy as np
import pytest

from hotfire.props import mutants
from hotfire.props.emulator import Buffer, Emulator
from hotfire.props.provider import Fault
from hotfire.props.runner import Runner
from hotfire.props.search import check_kernel, kernels_of
from hotfire.verdict import Status

N_VALUES, N_THREADS = 100, 64
RULES = {
    "canary_barrier_divergent": "barrier_divergent",
    "canary_barrier_missing": "barrier_missing",
    "canary_global_out_of_bounds": "global_out_of_bounds",
    "canary_global_read_only": "global_read_only",
    "canary_misaligned": "misaligned",
    "canary_shared_out_of_bounds": "shared_out_of_bounds",
    "canary_shared_race_read_write": "shared_race",
    "canary_shared_race_write_read": "shared_race",
    "canary_shared_race_write_write": "shared_race",
    "canary_shared_uninitialised": "shared_uninitialised",
    "canary_wave_divergent": "wave_divergent",
    "canary_wave_lane_out_of_range": "wave_lane_out_of_range",
}
MUTANT_RULES = {
    "assumes_wave_64": {"wave_lane_out_of_range"},
    "assumes_wave_32": {"exact_on_designed_inputs"},
    "dropped_barrier": {"shared_race", "shared_uninitialised"},
    "reads_past_row": {"global_out_of_bounds"},
    "shared_index_off_by_one": {"shared_out_of_bounds"},
    "shared_left_unset": {"shared_uninitialised"},
    "wide_loads_unaligned": {"misaligned"},
}
EMULATED = [each for each in mutants.mutants() if each.provider.startswith("emulator")]


@pytest.fixture(scope="module")
def emulator():
    return Emulator()


def run_canary(emulator, name, wave_size, seed):
    """One block of a canary on (x, y, n); returns y."""
    x = np.arange(N_VALUES, dtype=np.float32)
    y = np.zeros(N_THREADS, dtype=np.float32)
    emulator.launch(
        name,
        1,
        N_THREADS,
        [struct.pack("<Q", each.ctypes.data) for each in (x, y)] + [struct.pack("<q", N_VALUES)],
        [
            Buffer("x", x.ctypes.data, x.nbytes, writable=False),
            Buffer("y", y.ctypes.data, y.nbytes, writable=True),
        ],
        wave_size=wave_size,
        seed=seed,
    )
    return y


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("name", sorted(RULES))
def test_each_canary_is_named(emulator, name, wave_size, seed):
    """Whatever the width and the order of threads."""
    with pytest.raises(Fault) as caught:
        run_canary(emulator, name, wave_size, seed)
    assert caught.value.rule == RULES[name]
    assert f"kernel {name}, wave of {wave_size}, block 0, thread " in caught.value.message
    at_a_line = "canaries.cpp:" in caught.value.message or " of line " in caught.value.message
    assert at_a_line, caught.value.message


def test_every_canary_is_listed(emulator):
    """A canary without an expectation would prove nothing."""
    found = {name for name in emulator.kernels() if name.startswith("canary_")}
    assert found == {*RULES, "canary_healthy"}


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("wave_size", [32, 64])
def test_a_healthy_kernel_passes(emulator, wave_size, seed):
    """Shared memory, two barriers, a shuffle and a ballot, used as they should be."""
    y = run_canary(emulator, "canary_healthy", wave_size, seed)
    lanes = np.arange(N_THREADS)
    assert np.array_equal(y, (63 - (lanes ^ 1)) + 1.0)


def test_a_fault_leaves_the_emulator_usable(emulator):
    """Threads that were abandoned in the middle start anew."""
    for name in sorted(RULES):
        with pytest.raises(Fault):
            run_canary(emulator, name, 32, 0)
        run_canary(emulator, "canary_healthy", 32, 0)


def test_a_seed_determines_the_run(emulator):
    """The same seed gives the same report; some other seed gives another."""

    def message(seed):
        with pytest.raises(Fault) as caught:
            run_canary(emulator, "canary_shared_race_write_write", 32, seed)
        return caught.value.message

    assert message(7) == message(7)
    assert len({message(seed) for seed in range(1, 9)}) > 1


@pytest.mark.parametrize("width", [32, 64])
def test_kernels_hold_their_properties(width):
    """Done when: the same properties in the emulator, at both widths."""
    with Runner(f"emulator:{width}") as runner:
        assert {each.operation for each in runner.kernels} >= {
            "matvec_bf16",
            "matvec_q8_0",
            "rms_norm",
        }
        for kernel in runner.kernels:
            verdict = check_kernel(runner, kernel)
            assert verdict.status is Status.PASSED, verdict.findings


@pytest.mark.parametrize("mutant", EMULATED, ids=lambda each: each.name)
def test_each_mutant_is_found_and_named(mutant):
    """By the emulator's rule, or by the property that a wrong result breaks."""
    error = mutant.name.removeprefix(f"{mutant.operation}_")
    width = 64 if error == "assumes_wave_32" else 32
    with Runner(f"emulator:{width},mutant={mutant.name}") as runner:
        (kernel,) = kernels_of(runner, [mutant.operation])
        verdict = check_kernel(runner, kernel, only="exact_on_designed_inputs")
    assert verdict.status is Status.FAILED
    assert {found.rule for found in verdict.findings} <= MUTANT_RULES[error]


@pytest.mark.parametrize("shift", [0, 2, 4, 8])
def test_where_operands_lie_changes_no_bit(emulator, shift):
    """Operands are as aligned as their elements, not more; a wide load elsewhere is reported."""
    n_rows, n_cols = 3, 2056
    rng = np.random.default_rng(0)
    memory = np.zeros(2 * n_rows * n_cols + 64, dtype=np.uint8)
    at = -memory.ctypes.data % 16 + shift
    weight = memory[at : at + 2 * n_rows * n_cols].view(np.uint16)
    weight[:] = rng.integers(0x3F00, 0x4000, weight.shape)
    x = rng.standard_normal(n_cols).astype(np.float32)

    def product(weight):
        y = np.zeros(n_rows, dtype=np.float32)
        arrays = {"weight": weight, "x": x, "y": y}
        launch = emulator.launches["matvec_bf16"]
        emulator.launch(
            "matvec_bf16",
            launch.n_blocks(n_rows),
            launch.block_size,
            [struct.pack("<Q", each.ctypes.data) for each in arrays.values()]
            + [struct.pack("<q", size) for size in (n_rows, n_cols)],
            [
                Buffer(name, each.ctypes.data, each.nbytes, writable=name == "y")
                for name, each in arrays.items()
            ],
            wave_size=64,
        )
        return y

    aligned = np.zeros(weight.size + 8, dtype=np.uint16)
    aligned = aligned[-aligned.ctypes.data % 16 // 2 :][: weight.size]
    aligned[:] = weight
    assert np.array_equal(product(weight), product(aligned))


def test_a_block_that_is_no_whole_wave_is_refused(emulator):
    """Bad input is an error, not a report."""
    x = (ctypes.c_float * 1)()
    arguments = [struct.pack("<Q", ctypes.addressof(x))] * 2 + [struct.pack("<q", 1)]
    with pytest.raises(Exception, match="no kernel 'canary_healthy' for 33 threads"):
        emulator.launch("canary_healthy", 1, 33, arguments, [], wave_size=32)
