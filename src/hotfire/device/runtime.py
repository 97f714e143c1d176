"""One protocol for a GPU: code objects, launches, memory, events and graphs on one stream.

CUDA's driver interface and HIP answer the same calls under other names; `cuda.py` and `hip.py` hold
the names, and this module everything else. `python -m hotfire.device.runtime cuda|hip` says whether
there is a device.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from hotfire.errors import HotfireError, InputError, LibraryError

KINDS = ("cuda", "hip")

_PROBE_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The functions of a driver under common names; each returns (status, result...).

    Args:
        functions: common name -> the binding's function.
        success: the status of a call that went well.
        words: status -> what it means.
        start: makes device 0 current for this thread and returns its name; uses `functions`.
        relaxed: the capture mode in which other threads may call what they like.
    """

    functions: dict[str, Callable[..., Any]]
    success: Any
    words: Callable[[Any], str]
    start: Callable[[], str]
    relaxed: Any


class Device:
    """Device 0 of a vendor, with a stream of its own.

    Args:
        kind: "cuda" or "hip".

    Raises:
        LibraryError: if there is no binding, no driver or no device; the message says which.
    """

    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise InputError(f"device {kind!r} is not known; expected one of: {', '.join(KINDS)}")
        self.kind = kind
        self._driver: Driver = import_module(f"hotfire.device.{kind}").driver()
        self.name = self._driver.start()
        self.stream = self.call("stream_create", 1)

    def call(self, function: str, *arguments: Any) -> Any:
        """One call of the driver: its result, a tuple of several, None of none.

        Raises:
            LibraryError: with the driver's words, if it did not succeed. A kernel's own fault
                comes from whichever call follows it.
        """
        status, *results = self._driver.functions[function](*arguments)
        if status != self._driver.success:
            raise LibraryError(f"{self.kind}: {function}: {self._driver.words(status)}")
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def load(self, image: bytes) -> Any:
        """A module from a code object's bytes."""
        return self.call("module_load", image)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        return self.call("module_function", module, name.encode())

    def unload(self, module: Any) -> None:
        """Gives a module back."""
        self.call("module_unload", module)

    def allocate(self, n_bytes: int) -> int:
        """Device memory, at least one byte."""
        return int(self.call("allocate", max(1, n_bytes)))

    def free(self, address: int) -> None:
        """Gives device memory back."""
        self.call("free", address)

    def free_bytes(self) -> int:
        """Device memory that nobody has allocated."""
        free, _ = self.call("memory_info")
        return int(free)

    def write(self, address: int, host: int, n_bytes: int) -> None:
        """Copies from host memory, at once."""
        self.call("copy_to_device", address, host, n_bytes)

    def read(self, host: int, address: int, n_bytes: int) -> None:
        """Copies to host memory, at once."""
        self.call("copy_to_host", host, address, n_bytes)

    def fill(self, address: int, byte: int, n_bytes: int) -> None:
        """Sets bytes, in the stream's order."""
        self.call("fill", address, byte, n_bytes, self.stream)

    def copy(self, to: int, address: int, n_bytes: int) -> None:
        """Copies within the device, in the stream's order."""
        self.call("copy_on_device", to, address, n_bytes, self.stream)

    def launch(
        self, function: Any, n_blocks: int, block_size: int, arguments: Sequence[bytes]
    ) -> None:
        """Enqueues a kernel.

        Args:
            function: from `function`.
            n_blocks: the grid, at least 1.
            block_size: threads a block.
            arguments: each argument's bytes; they are copied before this returns.
        """
        held = [ctypes.create_string_buffer(value, len(value)) for value in arguments]
        pointers = [ctypes.addressof(value) for value in held]
        grid = (n_blocks, 1, 1, block_size, 1, 1, 0)
        self.call("launch", function, grid, self.stream, pointers)

    def synchronize(self) -> None:
        """Waits for all that was enqueued; a kernel's fault is raised here."""
        self.call("stream_synchronize", self.stream)

    def record(self) -> Any:
        """An event at this point of the stream."""
        event = self.call("event_create", 0)
        self.call("event_record", event, self.stream)
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events that have passed; both are given back."""
        elapsed = float(self.call("event_elapsed", start, end))
        self.call("event_destroy", start)
        self.call("event_destroy", end)
        return elapsed

    def capture(self, work: Callable[[], None]) -> Graph:
        """A graph of what `work` enqueues; nothing is run."""
        recorded = self.recorded(work)
        try:
            return Graph(self, self.call("graph_instantiate", recorded, 0))
        finally:
            self.call("graph_destroy", recorded)

    def recorded(self, work: Callable[[], None]) -> Any:
        """The driver's graph of what `work` enqueues; to be destroyed by the caller."""
        self.call("capture_begin", self.stream, self._driver.relaxed)
        try:
            work()
        except BaseException:
            self.call("graph_destroy", self.call("capture_end", self.stream))
            raise
        return self.call("capture_end", self.stream)


class Graph:
    """A graph that can be replayed, and updated with other pointers and sizes."""

    def __init__(self, device: Device, handle: Any) -> None:
        self._device = device
        self._handle = handle

    def replay(self) -> None:
        """Enqueues all of it."""
        self._device.call("graph_launch", self._handle, self._device.stream)

    def update(self, work: Callable[[], None]) -> None:
        """Takes the arguments of what `work` enqueues: the same kernels in the same order.

        Raises:
            LibraryError: if they are not the same.
        """
        recorded = self._device.recorded(work)
        try:
            self._device.call("graph_update", self._handle, recorded)
        finally:
            self._device.call("graph_destroy", recorded)

    def close(self) -> None:
        """Gives the graph back."""
        self._device.call("graph_exec_destroy", self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def unavailable(kind: str) -> str:
    """Why there is no device of this kind here, "" if there is one.

    It is asked in a process of its own: a driver that was started does not survive a fork.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hotfire.device.runtime", kind],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"{kind}: the driver did not answer within {_PROBE_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    return (done.stdout.strip() or f"{kind}: {done.stderr.strip()[-300:]}").splitlines()[-1]


def main() -> None:
    """Opens the device and prints its name, or why there is none."""
    try:
        print(Device(sys.argv[1]).name)
    except HotfireError as error:
        print(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
