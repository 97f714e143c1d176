"""The provider `hotfire`: our own library, every operation in every instruction set.

It calls each kernel by its spec alone, so a new operation needs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hotfire import __version__, lib
from hotfire.props.provider import Call, Kernel, Provider, Refused
from hotfire.ref.c_header import argument
from hotfire.ref.operation import Operation
from hotfire.ref.registry import operations

_ISAS = ("scalar", "avx2", "avx512")

_OPEN: list[ExitStack] = []
"""The contexts of every library offered. They live as long as the process: a context that nobody
holds is freed with its generator, and the kernels would go on with memory that is no longer theirs.
"""


def provide(argument: str) -> Provider:
    """All kernels of the shipped library, or of one with our interface at the path `argument`."""
    if argument:
        return offer(f"hotfire:{argument}", lib.load_path(Path(argument)))
    return offer("hotfire", lib.load())


def offer(name: str, library: lib.Library, n_threads: int = 1) -> Provider:
    """The kernels of a library with our interface, on so many threads."""
    contexts = ExitStack()
    kernels: list[Kernel] = []
    for isa in _ISAS:
        code = getattr(library.lib, f"HOTFIRE_ISA_{isa.upper()}")
        available = bool(library.lib.hotfire_isa_available(code))
        execution = (
            contexts.enter_context(lib.context(library, code, n_threads)) if available else None
        )
        kernels += [
            Kernel(
                operation=operation.name,
                variant=f"{isa}-fast" if fast else isa,
                call=_caller(library, operation, execution, fast),
                unavailable="" if available else f"this machine has no {isa}",
                checks_arguments=True,
                row_invariant=not fast,
                batch_invariant=operation.batch_invariant and not fast,
                fast=fast,
                in_place=True,
                strided=True,
                reference_encoding=True,
                any_code=True,
                minute_blocks=True,
            )
            for operation in operations().values()
            for fast in (False, True)[: 2 if operation.fast_bound else 1]
        ]
    _OPEN.append(contexts.pop_all())
    return Provider(name=name, version=__version__, kernels=kernels)


def _caller(
    library: lib.Library, operation: Operation, execution: Any, fast: bool
) -> Callable[[Call], None]:
    ffi = library.ffi
    function = getattr(library.lib, f"hotfire_{operation.name}")
    types = {each.name: ffi.typeof(f"{each.format.c_type} *") for each in operation.operands}

    flags = library.lib.HOTFIRE_EXEC_FAST if fast else 0

    def call(arguments: Call) -> None:
        execution.flags = flags
        execution.workspace = ffi.cast("void *", arguments.pointers.get("workspace", 0))
        execution.workspace_size = arguments.sizes.get("workspace", 0)
        status = function(
            execution,
            *(
                ffi.cast(types[each.name], arguments.pointers[each.name])
                for each in operation.operands
            ),
            *(arguments.scalars[each.name] for each in operation.scalars),
            *(arguments.sizes[argument(axis)] for axis in operation.axes),
        )
        if status != library.lib.HOTFIRE_STATUS_OK:
            words = library.lib.hotfire_context_error(execution.context)
            raise Refused(ffi.string(words).decode(errors="replace"))

    return call
