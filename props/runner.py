"""The parent's end of a worker: send a call, get an outcome, survive crashes and hangs."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from hotfire import errors
from hotfire.errors import HotfireError, InputError, WorkerError
from hotfire.props.arena import Arena
from hotfire.props.stack import symbolise

CAPACITY = 1 << 22
"""Bytes a slot of the arena holds; a sparse file, so unused room costs nothing."""

LOAD_SECONDS = 60.0
"""How long a provider may take to load."""


@dataclass(frozen=True)
class KernelInfo:
    """What a worker said of one kernel; the fields are those of `provider.Kernel`."""

    index: int
    operation: str
    variant: str
    unavailable: str
    checks_arguments: bool
    row_invariant: bool
    in_place: bool
    strided: bool
    reference_encoding: bool
    any_code: bool
    minute_blocks: bool
    batch_invariant: bool
    fast: bool


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Args:
        kind: "ok", "refused" (the library's own status), "faulted" (the device's own report, a
            rule and words), "error" (of the adapter), "crashed", "ended" (exit was called), "hung".
        message: the library's words, or the signal and what was touched.
        stack: native frames, innermost first, where it crashed or hung.
    """

    kind: str
    message: str = ""
    stack: tuple[str, ...] = ()


class Runner:
    """A worker process with one provider loaded.

    Args:
        provider: as `provider.load` takes it.
        seconds: how long one call may take before it counts as hung.

    Raises:
        InputError: if the provider cannot be loaded.
        WorkerError: if the process cannot be started.
    """

    def __init__(self, provider: str, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self.arena = Arena(CAPACITY)
        self.crashed_base = 0
        """Where the arena lay in the process that crashed last."""
        self._mutant = ""
        self.pid = 0
        """The process that runs kernels; another one after each crash."""
        self._report = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - close() does
        ours, theirs = socket.socketpair()
        fds = (theirs.fileno(), self.arena.fd, self._report.fileno())
        words = [provider, *map(str, fds), str(self.arena.capacity)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hotfire.props.worker", *words],
            pass_fds=fds,
            stdout=2,  # what a library prints must not get into a verdict
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        try:
            self._hello()
        except BaseException:
            self.close()
            raise

    def _hello(self) -> None:
        answer = self._receive(LOAD_SECONDS)
        if answer is None:
            raise WorkerError(f"the provider did not load within {LOAD_SECONDS:.0f} s")
        if answer[0] == "refused":
            kind = getattr(errors, answer[1], HotfireError)
            raise kind(answer[2])
        _, self.provider, self.version, described = answer
        self.kernels = [KernelInfo(index, **fields) for index, fields in enumerate(described)]
        self._await_ready()

    def _await_ready(self) -> None:
        answer = self._receive(LOAD_SECONDS)
        if answer is None or answer[0] != "ready":
            raise WorkerError(f"the worker is not ready: {answer}")
        _, self.pid, self._base = answer
        if self._mutant:
            self.select(self._mutant)

    def select(self, mutant: str) -> None:
        """Switches a planted fault of the provider on, by name, or all off with "".

        Raises:
            InputError: if the provider has none of that name.
        """
        self._mutant = mutant
        self._connection.send(("select", mutant))
        answer = self._receive(LOAD_SECONDS)
        if answer is None or answer[0] != "ok":
            raise InputError(answer[1] if answer else f"mutant {mutant} was not selected")

    def call(
        self,
        kernel: KernelInfo,
        offsets: Mapping[str, int | None],
        sizes: Mapping[str, int],
        scalars: Mapping[str, float],
    ) -> Outcome:
        """Runs a kernel on operands at these offsets of the arena; None stands for NULL."""
        self._connection.send((kernel.index, dict(offsets), dict(sizes), dict(scalars)))
        answer = self._receive(self.seconds)
        if answer is None:
            return self._hung()
        if answer[0] == "died":
            return self._crashed(int(answer[1]))
        if answer[0] == "ended":
            self._await_ready()
            return Outcome("ended", f"the kernel ended its process with exit code {answer[1]}")
        if answer[0] == "lost":
            self._await_ready()
            return Outcome("faulted", answer[1])
        return Outcome(*answer)

    def renew(self) -> None:
        """Ends the process that runs kernels and starts another, as a new command would have it."""
        os.kill(self.pid, signal.SIGKILL)
        self._await_death()
        self._await_ready()

    def _await_death(self) -> None:
        """Waits until the process that was killed is gone; what it still said is left out."""
        answer = self._receive(LOAD_SECONDS)
        while answer is not None and answer[0] != "died":
            answer = self._receive(LOAD_SECONDS)

    def _receive(self, seconds: float) -> Any:
        """The next message, or None when none came in time."""
        if not self._connection.poll(seconds):
            return None
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise WorkerError(
                f"the worker process ended on its own, exit code {self._process.wait()}; "
                "its message is above"
            ) from None

    def _crashed(self, number: int) -> Outcome:
        head, stack = self._read_report()
        self.crashed_base = self._base
        self._await_ready()
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return Outcome("crashed", f"{name} {head}".strip(), stack)

    def _hung(self) -> Outcome:
        """Asks the runner for its stack, then kills it."""
        os.kill(self.pid, signal.SIGUSR1)
        self._connection.poll(0.2)
        _, stack = self._read_report()
        os.kill(self.pid, signal.SIGKILL)
        self._await_death()
        self._report.seek(0)
        self._report.truncate()
        self._await_ready()
        return Outcome("hung", f"no answer within {self.seconds:g} s", stack)

    def _read_report(self) -> tuple[str, tuple[str, ...]]:
        """The guard's report: what was touched, and the stack; clears it for the next."""
        self._report.seek(0)
        text = self._report.read().decode(errors="replace")
        self._report.seek(0)
        self._report.truncate()
        match = re.search(r"^signal=\d+ (address=0x[0-9a-f]+ access=\w+)$", text, re.MULTILINE)
        if not match:
            return "", ()
        return match[1], symbolise(text[match.end() :].strip().splitlines())

    def close(self) -> None:
        """Ends the worker."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self.arena.close()
        self._report.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
