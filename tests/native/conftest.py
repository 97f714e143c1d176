"""Calls of the built library, on each instruction set that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hotfire import lib
from hotfire.lib import Library

VARIANTS = {"scalar": 1, "avx2": 2, "avx512": 3}


class Calls:
    """Kernels by name: arrays, addresses or None for pointers, numbers for the rest."""

    def __init__(self, library: Library, execution) -> None:
        self.ffi, self.lib, self.execution = library.ffi, library.lib, execution

    def __call__(self, kernel: str, *arguments) -> str:
        """Runs a kernel and gives the name of its status."""
        function = getattr(self.lib, f"hotfire_{kernel}")
        types = self.ffi.typeof(function).args[1:]
        values = [self._value(*pair) for pair in zip(types, arguments, strict=True)]
        return self.name(function(self.execution, *values))

    def _value(self, wanted, argument):
        if wanted.kind != "pointer":
            return argument
        address = argument.ctypes.data if isinstance(argument, np.ndarray) else argument or 0
        return self.ffi.cast(wanted, address)

    def name(self, status: int) -> str:
        """The name of a status."""
        return self.ffi.string(self.lib.hotfire_status_name(status)).decode()

    @property
    def error(self) -> str:
        """The context's error text."""
        return self.ffi.string(self.lib.hotfire_context_error(self.execution.context)).decode()


@pytest.fixture(scope="session")
def library() -> Library:
    return lib.load()


@pytest.fixture(scope="session")
def native_folder() -> Path:
    return Path(__file__).parents[2] / "native"


@pytest.fixture(params=VARIANTS)
def call(request: pytest.FixtureRequest, library: Library) -> Iterator[Calls]:
    """Calls on one instruction set, skipped where the machine lacks it."""
    isa = VARIANTS[request.param]
    if not library.lib.hotfire_isa_available(isa):
        pytest.skip(f"this machine has no {request.param}")
    with lib.context(library, isa) as execution:
        yield Calls(library, execution)


@pytest.fixture
def call_scalar(library: Library) -> Iterator[Calls]:
    """Calls where the instruction set does not matter, as arguments are checked before it."""
    with lib.context(library, VARIANTS["scalar"]) as execution:
        yield Calls(library, execution)


@pytest.fixture
def open_context(library: Library):
    """Creates a context with any parameters: (status name, context pointer)."""
    ffi, functions = library.ffi, library.lib
    made = []

    def create(**changes):
        params = ffi.new("hotfire_context_params *")
        params.struct_size = ffi.sizeof("hotfire_context_params")
        params.abi_version = functions.HOTFIRE_ABI_VERSION
        for name, value in changes.items():
            setattr(params, name, value)
        handle = ffi.new("hotfire_context **")
        status = functions.hotfire_context_create(params, handle)
        if handle[0] != ffi.NULL:
            made.append(handle[0])
        return ffi.string(functions.hotfire_status_name(status)).decode(), handle[0]

    yield create
    for context in made:
        functions.hotfire_context_free(context)
