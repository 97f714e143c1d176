"""Providers: how a library calls a logical operation.

A provider is loaded in a process of its own by its name: `hotfire`, `hotfire-mutants:NAME`,
`ggml`, or the path of a Python file. Such a module defines

    def provide(argument: str) -> Provider: ...

where `argument` is what follows the name's colon. `props/providers/ggml.py` is one to copy from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from hotfire.errors import HotfireError, InputError

BUILT_IN = {
    "hotfire": "hotfire.props.providers.native",
    "hotfire-mutants": "hotfire.props.providers.native_mutants",
    "hotfire-threads": "hotfire.props.providers.native_threads",
    "ggml": "hotfire.props.providers.ggml",
    "emulator": "hotfire.props.providers.emulator",
    "cuda": "hotfire.props.providers.cuda",
    "hip": "hotfire.props.providers.hip",
}


@dataclass(frozen=True)
class Call:
    """One call of a kernel: what the provider hands to its library.

    Args:
        pointers: address of each operand by name, and of "workspace" where the operation asks
            for one.
        sizes: each axis by name; bytes of the workspace as "workspace"; where rows may lie apart,
            elements from one to the next as "<operand>_stride".
        scalars: each scalar by name.
    """

    pointers: Mapping[str, int]
    sizes: Mapping[str, int]
    scalars: Mapping[str, float]


class Refused(Exception):
    """A kernel's own word that it does not take these arguments, with its reason."""


class Fault(Exception):
    """A device's or an emulator's word that a kernel broke its rules.

    Args:
        rule: which one, as the finding names it.
        message: kernel, block, thread, what it did to what.
        is_lost: whether the device cannot be used any more in this process.
    """

    def __init__(self, rule: str, message: str, *, is_lost: bool = False) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message
        self.is_lost = is_lost


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One implementation of one operation.

    Args:
        operation: the logical operation's name.
        variant: which implementation: an instruction set, a tile, a split.
        call: runs it to completion; raises `Refused` if the library answers with an error, and
            `Fault` if a device or an emulator saw the kernel break a rule.
        unavailable: why this machine cannot run it, "" if it can.
        checks_arguments: whether it promises to refuse mistakes; else none are tried.
        row_invariant: whether it promises that a row's result does not depend on its neighbours
            to the bit; else they may differ within the bound.
        in_place: whether an output may lie on the input that the operation names.
        strided: whether it takes operands with gaps between their rows, as `Call.sizes` tells by
            strides; else rows lie next to each other.
        reference_encoding: whether outputs in a lossy format are promised to be those of the
            format's reference encoder, bit for bit; else any encoding within the bound is right.
        any_code: whether it promises to take codes that no encoder writes, such as -128 in q8_0.
        minute_blocks: whether it promises the reference encoding also of blocks whose scale has no
            reciprocal in f32.
        batch_invariant: whether it promises that a result does not depend to the bit on how the
            work is cut into chunks and splits; else it may differ within the bound.
        fast: whether it computes in the arithmetic mode `fast`, bounded by `fast_bound`.
    """

    operation: str
    variant: str
    call: Callable[[Call], None] = field(repr=False)
    unavailable: str = ""
    checks_arguments: bool = False
    row_invariant: bool = False
    in_place: bool = False
    strided: bool = False
    reference_encoding: bool = False
    any_code: bool = False
    minute_blocks: bool = False
    batch_invariant: bool = False
    fast: bool = False


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A library's kernels.

    Args:
        name: as it was asked for.
        version: of the library, for the scope of a verdict.
        kernels: what it offers.
        select: switches one planted fault on by name, and all others off; None if it has none.
    """

    name: str
    version: str
    kernels: Sequence[Kernel]
    select: Callable[[str], None] | None = None


def load(name: str) -> Provider:
    """Loads a provider by name or by the path of a Python file.

    Raises:
        InputError: if there is none of that name, or its module cannot be loaded.
    """
    head, _, argument = name.partition(":")
    module = _module(head)
    try:
        provider = module.provide(argument)
    except HotfireError:
        raise
    except Exception as error:  # an adapter may fail in any way; say which and where
        raise InputError(f"{head}: provide() failed: {type(error).__name__}: {error}") from error
    if not isinstance(provider, Provider):
        raise InputError(f"{head}: provide() returned {type(provider).__name__}, not a Provider")
    return provider


def _module(head: str) -> ModuleType:
    if head in BUILT_IN:
        return import_module(BUILT_IN[head])
    path = Path(head)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"provider {head!r} is not known; expected {', '.join(BUILT_IN)} or a Python file"
        )
    spec = spec_from_file_location(f"hotfire_provider_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{head} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, "provide"):
        raise InputError(f"{head} defines no function `provide(argument)`; see props/provider.py")
    return module
