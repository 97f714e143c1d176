"""The process that runs kernels.

It loads one provider and then forks a runner that maps the arena and calls kernels. When the
runner dies, this process says how and forks the next, so a crash costs milliseconds, not a new
interpreter. Messages are tuples over one socket: see `hotfire.props.runner`, its other end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import as_file, files
from multiprocessing.connection import Connection

from hotfire.errors import HotfireError, InputError, WorkerError
from hotfire.props.arena import map_guarded
from hotfire.props.provider import Call, Fault, Kernel, Provider, Refused, load

LOST = 3
"""The exit code of a runner whose device was lost: the next runner opens it anew."""


def main(name: str, socket_fd: int, arena_fd: int, report_fd: int, capacity: int) -> None:
    """Serves calls on the socket until its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    connection = Connection(socket_fd)
    try:
        provider = load(name)
    except HotfireError as error:
        connection.send(("refused", type(error).__name__, str(error)))
        return
    connection.send(("loaded", provider.name, provider.version, _described(provider)))
    while True:
        runner = os.fork()
        if runner == 0:
            code = 1
            try:
                code = _run(provider, connection, arena_fd, report_fd, capacity)
            except Exception:  # say, a kernel closed our socket: its words are all that is left
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(runner, 0)
        if os.WIFSIGNALED(status):
            connection.send(("died", os.WTERMSIG(status)))
        elif os.WEXITSTATUS(status) != LOST:
            try:
                connection.send(("ended", os.WEXITSTATUS(status)))
            except OSError:  # the other end closed, which is what ends a runner as a rule
                return


def _described(provider: Provider) -> list[dict[str, str | bool]]:
    names = [each.name for each in fields(Kernel) if each.name != "call"]
    return [{name: getattr(kernel, name) for name in names} for kernel in provider.kernels]


def _run(
    provider: Provider, connection: Connection, arena_fd: int, report_fd: int, capacity: int
) -> int:
    """Serves calls; returns 0 when there are no more, `LOST` when the device was lost."""
    with as_file(files("hotfire") / "_lib" / "libhotfire_guard.so") as path:
        guard = ctypes.CDLL(str(path))
    if guard.hotfire_guard_install(report_fd):
        raise WorkerError("the signal handlers could not be installed")
    base = map_guarded(arena_fd, capacity)
    own = os.getpid()
    connection.send(("ready", own, base))
    while True:
        try:
            message = connection.recv()
        except (EOFError, ConnectionResetError):
            return 0
        if message[0] == "select":
            connection.send(_selected(provider, message[1]))
            continue
        index, offsets, sizes, scalars = message
        answer = _answer(provider.kernels[index], base, offsets, sizes, scalars)
        if os.getpid() != own:
            os._exit(0)  # a kernel forked, and this is its child: one call has one answer
        try:
            connection.send(answer)
        except BrokenPipeError:  # the parent was ended meanwhile
            return 0
        if answer[0] == "lost":
            return LOST


def _selected(provider: Provider, mutant: str) -> tuple[str, str]:
    if provider.select is None:
        return "error", f"provider {provider.name} has no mutants"
    try:
        provider.select(mutant)
    except InputError as error:
        return "error", str(error)
    return "ok", ""


def _answer(
    kernel: Kernel,
    base: int,
    offsets: Mapping[str, int | None],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> tuple[str, str]:
    """Calls the kernel; an offset of None stands for NULL."""
    pointers = {key: 0 if at is None else base + at for key, at in offsets.items()}
    try:
        kernel.call(Call(pointers, sizes, scalars))
    except Refused as refusal:
        return "refused", str(refusal)
    except Fault as fault:
        return "lost" if fault.is_lost else "faulted", str(fault)
    except InputError as error:
        return "error", str(error)
    except BaseException as error:  # an adapter's own bug must not look like a crash of the kernel
        return "error", f"{type(error).__name__}: {error}"
    return "ok", ""


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
