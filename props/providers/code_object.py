"""What the providers `cuda` and `hip` have in common: kernels of a code object, run on a device.

Operands are copied to the device, each between pads of 0xFF, at an address that is as aligned as
the host's, not more. After the call all of them are copied back, inputs too, and the pads checked.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import ClassVar

from hotfire.device import code_object
from hotfire.device.code_object import CodeObject, Launch
from hotfire.device.runtime import Device, unavailable
from hotfire.errors import InputError, LibraryError
from hotfire.props.launching import arguments_of, n_rows_of
from hotfire.props.provider import Call, Fault, Kernel, Provider
from hotfire.ref.operation import Operand, Operation
from hotfire.ref.registry import operations

PAD = 512
"""Bytes of pad on either side of an operand."""

PAD_BYTE = 0xFF
"""NaN in every float format, and as a scale of quantised blocks."""


def offer(kind: str, argument: str) -> Provider:
    """The kernels of a code object, or of every code object in a folder.

    Args:
        kind: "cuda" or "hip".
        argument: a cubin or AMD code object, or a folder of them.

    Raises:
        InputError: if it names none.
    """
    suffix = {"cuda": ".cubin", "hip": ".co"}[kind]
    if not argument:
        raise InputError(f"provider {kind} needs a code object: {kind}:FILE{suffix}")
    path = Path(argument)
    paths = sorted(path.glob(f"*{suffix}")) if path.is_dir() else [path]
    objects = [code_object.read(each) for each in paths]
    reason = unavailable(kind)
    kernels = [
        Kernel(
            operation=operation,
            variant=code.target,
            call=_Session(kind, code, launch, operations()[operation]),
            unavailable=reason,
            row_invariant=True,
            in_place=True,
            any_code=True,
        )
        for code in objects
        for operation, launch in code.launches.items()
        if operation in operations()
    ]
    if not kernels:
        raise InputError(f"{argument}: holds no kernel of an operation that hotfire knows")
    version = " ".join(sorted({code.target for code in objects}))
    return Provider(name=f"{kind}:{argument}", version=version, kernels=kernels)


class _Session:
    """One kernel of a code object, on a device that is opened by the first call.

    A driver does not survive a fork, so nothing is opened before.
    """

    _devices: ClassVar[dict[str, Device]] = {}

    def __init__(self, kind: str, code: CodeObject, launch: Launch, operation: Operation) -> None:
        self.kind = kind
        self.code = code
        self.launch = launch
        self.operation = operation
        self._open: tuple[Device, object] | None = None
        self._buffers: dict[str, tuple[int, int]] = {}

    def __call__(self, call: Call) -> None:
        device, function = self._opened()
        placed = self._place(device, call)
        try:
            n_blocks = self.launch.n_blocks(n_rows_of(self.operation, call))
            if n_blocks:
                values = arguments_of(self.operation, call, placed)
                device.launch(function, n_blocks, self.launch.block_size, values)
            device.synchronize()
        except LibraryError as error:
            raise Fault("device_error", str(error), is_lost=True) from error
        for operand in self.operation.operands:
            self._return(device, operand, call, placed[operand.name])

    def _opened(self) -> tuple[Device, object]:
        if self._open is None:
            device = self._devices.get(self.kind) or Device(self.kind)
            self._devices[self.kind] = device
            name = code_object.kernel_symbol(self.operation.name)
            self._open = device, device.function(device.load(self.code.image), name)
        return self._open

    def _place(self, device: Device, call: Call) -> dict[str, int]:
        """Copies the operands; those that share an address on the host share one on the device."""
        placed: dict[str, int] = {}
        at_host: dict[int, int] = {}
        for operand in self.operation.operands:
            host = call.pointers[operand.name]
            size = operand.format.n_bytes(operand.shape(call.sizes))
            if host not in at_host or not size:
                buffer = self._buffer(device, operand, size + 3 * PAD)
                device.fill(buffer, PAD_BYTE, size + 3 * PAD)
                device.synchronize()
                at_host[host] = buffer + PAD + (host - buffer) % PAD
                if size:
                    device.write(at_host[host], host, size)
            placed[operand.name] = at_host[host]
        return placed

    def _buffer(self, device: Device, operand: Operand, n_bytes: int) -> int:
        address, room = self._buffers.get(operand.name, (0, 0))
        if room < n_bytes:
            if address:
                device.free(address)
            room = max(n_bytes, 2 * room)
            address = device.allocate(room)
            self._buffers[operand.name] = address, room
        return address

    def _return(self, device: Device, operand: Operand, call: Call, at: int) -> None:
        size = operand.format.n_bytes(operand.shape(call.sizes))
        whole = ctypes.create_string_buffer(PAD + size + PAD)
        device.read(ctypes.addressof(whole), at - PAD, len(whole))
        before, after = whole.raw[:PAD], whole.raw[PAD + size :]
        for side, pad in (("before", before), ("past the end of", after)):
            if pad.count(PAD_BYTE) != PAD:
                raise Fault("stays_in_bounds", f"bytes were written {side} {operand.name}")
        ctypes.memmove(call.pointers[operand.name], ctypes.addressof(whole) + PAD, size)
