"""The provider `emulator`: GPU kernels on the CPU, with waves of 32 and of 64 lanes.

`emulator` offers both widths, `emulator:32` and `emulator:64` one. Words may follow, divided by
commas: `seed=N` shuffles the order in which threads run, `mutant=NAME` turns a planted fault on.
"""

from __future__ import annotations

from collections.abc import Callable

from hotfire import __version__
from hotfire.errors import InputError
from hotfire.props.emulator import WAVE_SIZES, Buffer, Emulator
from hotfire.props.launching import arguments_of, n_rows_of
from hotfire.props.provider import Call, Kernel, Provider
from hotfire.ref.operation import Operation
from hotfire.ref.registry import operations


def provide(argument: str) -> Provider:
    """The emulator's kernels at the widths that `argument` names."""
    widths, seed, mutant = _parsed(argument)
    emulator = Emulator()
    emulator.select_mutant(mutant)
    kernels = [
        Kernel(
            operation=operation.name,
            variant=f"wave{width}",
            call=_caller(emulator, operation, width, seed),
            row_invariant=True,
            in_place=True,
            any_code=True,
        )
        for width in widths
        for operation in operations().values()
        if operation.name in emulator.launches
    ]
    name = f"emulator:{argument}" if argument else "emulator"
    return Provider(name=name, version=__version__, kernels=kernels, select=emulator.select_mutant)


def _parsed(argument: str) -> tuple[tuple[int, ...], int, str]:
    """Widths, seed and mutant."""
    widths: tuple[int, ...] = WAVE_SIZES
    seed, mutant = 0, ""
    for word in filter(None, argument.split(",")):
        key, _, value = word.partition("=")
        if word.isdecimal() and int(word) in WAVE_SIZES:
            widths = (int(word),)
        elif key == "seed" and value.isdecimal():
            seed = int(value)
        elif key == "mutant" and value:
            mutant = value
        else:
            raise InputError(
                f"emulator: {word!r} is not understood; expected 32, 64, seed=N or mutant=NAME"
            )
    return widths, seed, mutant


def _caller(
    emulator: Emulator, operation: Operation, wave_size: int, seed: int
) -> Callable[[Call], None]:
    launch = emulator.launches[operation.name]

    def call(arguments: Call) -> None:
        buffers = [
            Buffer(
                each.name,
                arguments.pointers[each.name],
                each.format.n_bytes(each.shape(arguments.sizes)),
                each in operation.outputs,
            )
            for each in operation.operands
        ]
        emulator.launch(
            operation.name,
            launch.n_blocks(n_rows_of(operation, arguments)),
            launch.block_size,
            arguments_of(operation, arguments, arguments.pointers),
            buffers,
            wave_size=wave_size,
            seed=seed,
        )

    return call
