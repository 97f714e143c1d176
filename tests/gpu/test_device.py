"""On a real device: the properties of code objects, and graphs. Skips where there is none."""

import ctypes
import struct

import numpy as np
import pytest

from hotfire.device import code_object
from hotfire.device.runtime import Device
from hotfire.errors import LibraryError
from hotfire.props.runner import Runner
from hotfire.props.search import check_kernel
from hotfire.verdict import Status

from .conftest import build, scratch

TARGETS = {"cuda": "sm_90", "hip": "gfx906"}
SUFFIXES = {"cuda": "cubin", "hip": "co"}
N_ROWS, N_COLS, N_SETS, N_UPDATES, N_WARM = 512, 4096, 8, 2000, 50
LEAK_BYTES = 1 << 16


@pytest.fixture(scope="module")
def device(kind):
    return Device(kind)


@pytest.fixture(scope="module")
def kernels(kind, device, built):
    """operation -> (function, launch)."""
    found = {}
    for path in sorted(built(TARGETS[kind]).glob(f"*.{SUFFIXES[kind]}")):
        code = code_object.read(path)
        module = device.load(code.image)
        for operation, launch in code.launches.items():
            function = device.function(module, code_object.kernel_symbol(operation))
            found[operation] = function, launch
    return found


def test_code_objects_hold_their_properties(kind, built):
    """Done when: the same properties on the device; no suite knows of it."""
    with Runner(f"{kind}:{built(TARGETS[kind])}") as runner:
        for kernel in runner.kernels:
            verdict = check_kernel(runner, kernel)
            assert verdict.status is Status.PASSED, verdict.findings
            print(verdict.name, verdict.status, dict(verdict.measurements))


def planted(folder, kind, line):
    """A code object whose rms_norm does one thing more at its end, and the manifest be damned."""

    def change(text):
        return text.rstrip().removesuffix("}") + f"    {line}\n}}\n"

    build(folder / "build", TARGETS[kind], scratch(folder, change))
    return folder / f"build/rms_norm.{TARGETS[kind]}.{SUFFIXES[kind]}"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("if (thread_index() == 0) y[n_tokens * n_embd] = 1;", "stays_in_bounds"),
        ("if (thread_index() == 0) *reinterpret_cast<volatile float *>(8) = 1;", "device_error"),
    ],
)
def test_a_planted_fault_is_found_and_survived(kind, tmp_path, line, rule):
    """A write past the end, and one far away, which costs the process its device."""
    path = planted(tmp_path, kind, line)
    with Runner(f"{kind}:{path}") as runner:
        (kernel,) = runner.kernels
        verdict = check_kernel(runner, kernel, only="agrees_with_reference")
    assert verdict.status is Status.FAILED
    assert {found.rule for found in verdict.findings} == {rule}
    print(verdict.findings[0].message)


class Chain:
    """rms_norm, then matvec_bf16 of its result, on operands that change from call to call."""

    def __init__(self, device, kernels):
        self.device = device
        self.kernels = kernels
        rng = np.random.default_rng(0)
        weight = rng.integers(0x3D00, 0x3F00, (N_ROWS, N_COLS), dtype=np.uint16)
        self.weight = self.put(weight)
        self.gain = self.put(rng.standard_normal(N_COLS).astype(np.float32))
        self.x = [self.put(rng.standard_normal(N_COLS).astype(np.float32)) for _ in range(N_SETS)]
        self.normed = [device.allocate(4 * N_COLS) for _ in range(N_SETS)]
        self.y = [device.allocate(4 * N_ROWS) for _ in range(N_SETS)]

    def put(self, array):
        address = self.device.allocate(array.nbytes)
        self.device.write(address, array.ctypes.data, array.nbytes)
        return address

    def enqueue(self, i, out):
        """Input i into output `out`."""
        normed = self.normed[(i + out) % N_SETS]
        self._launch("rms_norm", 1, [self.x[i], self.gain, normed], [1e-6], [1, N_COLS])
        operands = [self.weight, normed, self.y[out]]
        self._launch("matvec_bf16", N_ROWS, operands, [], [N_ROWS, N_COLS])

    def _launch(self, operation, n_rows, operands, scalars, sizes):
        function, launch = self.kernels[operation]
        arguments = [struct.pack("<Q", each) for each in operands]
        arguments += [struct.pack("<f", each) for each in scalars]
        arguments += [struct.pack("<q", each) for each in sizes]
        self.device.launch(function, launch.n_blocks(n_rows), launch.block_size, arguments)

    def poison(self, out):
        self.device.fill(self.y[out], 0xFF, 4 * N_ROWS)

    def result(self, out):
        self.device.synchronize()
        host = ctypes.create_string_buffer(4 * N_ROWS)
        self.device.read(ctypes.addressof(host), self.y[out], 4 * N_ROWS)
        return host.raw


def replay(chain, each=lambda: None):
    """Updates a graph `N_UPDATES` times with other pointers.

    Returns:
        How many results differ from eager, and the free bytes after each update.
    """
    device = chain.device
    eager = []
    for i in range(N_SETS):
        chain.poison(0)
        chain.enqueue(i, 0)
        eager.append(chain.result(0))
    assert len(set(eager)) == N_SETS
    n_wrong, free = 0, []
    with device.capture(lambda: chain.enqueue(0, 0)) as graph:
        for step in range(N_UPDATES):
            i, out = step % N_SETS, step * 5 // 3 % N_SETS
            graph.update(lambda i=i, out=out: chain.enqueue(i, out))
            each()
            chain.poison(out)
            graph.replay()
            n_wrong += chain.result(out) != eager[i]
            free.append(device.free_bytes())
    return n_wrong, free


def leaked(free):
    """Bytes by which free memory fell after the warm-up."""
    return free[N_WARM] - min(free[N_WARM:])


def test_an_updated_graph_equals_eager_and_memory_is_flat(device, kernels):
    """Done when: 2,000 updates with changing pointers."""
    n_wrong, free = replay(Chain(device, kernels))
    print(f"{N_UPDATES} updates, {n_wrong} differ, {leaked(free)} bytes lost")
    assert n_wrong == 0
    assert leaked(free) == 0


def test_a_planted_leak_is_found(device, kernels):
    """The canary: an allocation at each update that nobody gives back."""
    kept = []
    n_wrong, free = replay(Chain(device, kernels), lambda: kept.append(device.allocate(LEAK_BYTES)))
    expected = (N_UPDATES - N_WARM) * LEAK_BYTES
    print(f"planted {expected} bytes, found {leaked(free)}")
    for address in kept:
        device.free(address)
    assert n_wrong == 0
    assert 0.9 * expected < leaked(free) < 1.1 * expected


def test_a_stale_replay_is_seen(device, kernels):
    """The other canary: without the update, results are those of the captured pointers."""
    chain = Chain(device, kernels)
    chain.enqueue(1, 1)
    want = chain.result(1)
    with device.capture(lambda: chain.enqueue(0, 1)) as graph:
        chain.poison(1)
        graph.replay()
        assert chain.result(1) != want


def test_a_graph_of_other_kernels_is_refused(device, kernels):
    """An update changes arguments, not the graph."""
    chain = Chain(device, kernels)
    with (
        device.capture(lambda: chain.enqueue(0, 0)) as graph,
        pytest.raises(LibraryError, match="graph_update"),
    ):
        graph.update(lambda: chain.poison(0))
