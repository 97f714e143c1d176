"""Operand memory shared with the process that runs kernels, between inaccessible pages.

One anonymous file holds `N_SLOTS` slots. A slot is a guard, `capacity` bytes, a guard. The parent
maps the file plainly and fills operands in; the process that runs kernels maps it with the guards
inaccessible, so that one byte past an operand's end (placed "end") or before its start (placed
"start") faults, and so does a stride that is wrong by megabytes: a guard is wider than a slot. The
file is sparse, so guards cost nothing. On the open side lies a pad of 0xFF, NaN in every float
format.
Placed "shifted" it lies one element past the page's start, as little aligned as it may be: rows of
whole vectors would else always be aligned to a vector.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass

import numpy as np

from hotfire.errors import InputError, WorkerError
from hotfire.ref.formats import Bytes

PAGE = mmap.PAGESIZE
GUARD = 1 << 24
"""Inaccessible bytes on either side of a slot."""

N_SLOTS = 16
PAD = 512
"""Bytes of pad that are written and checked on the open side of an operand."""

PAD_BYTE = 0xFF


@dataclass(frozen=True)
class Placement:
    """Where an operand lies: slot, offset from the arena's start, and size, in bytes."""

    slot: int
    offset: int
    n_bytes: int


class Arena:
    """The parent's view: plain memory, to fill and to read back.

    Args:
        capacity: bytes a slot holds, rounded up to pages.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = -(-capacity // PAGE) * PAGE
        self.fd = os.memfd_create("hotfire-arena")
        size = N_SLOTS * slot_size(self.capacity)
        os.ftruncate(self.fd, size)
        self._memory = mmap.mmap(self.fd, size)
        self.bytes: Bytes = np.frombuffer(self._memory, dtype=np.uint8)

    def place(self, slot: int, n_bytes: int, side: str, alignment: int = 1) -> Placement:
        """The place of an operand whose guarded side is `side`, "end", "start" or "shifted".

        Raises:
            InputError: if the operand is larger than a slot less its pad, or there is no such slot.
        """
        if n_bytes + alignment + PAD > self.capacity or slot >= N_SLOTS:
            raise InputError(
                f"operand {slot} of {n_bytes} bytes does not fit {N_SLOTS} slots of "
                f"{self.capacity - PAD} bytes; use a smaller case"
            )
        first = slot * slot_size(self.capacity) + GUARD
        offsets = {"end": self.capacity - n_bytes, "start": 0, "shifted": alignment}
        return Placement(slot, first + offsets[side], n_bytes)

    def view(self, place: Placement) -> Bytes:
        """The operand's bytes, writable."""
        return self.bytes[place.offset : place.offset + place.n_bytes]

    def pad(self, place: Placement) -> Bytes:
        """The pad on the operand's open side."""
        first = place.slot * slot_size(self.capacity) + GUARD
        if place.offset - first < PAD:
            after = place.offset + place.n_bytes
            return self.bytes[after : after + PAD]
        return self.bytes[place.offset - PAD : place.offset]

    def close(self) -> None:
        """Releases the file; the views must not be used any more."""
        os.close(self.fd)


def slot_size(capacity: int) -> int:
    """Bytes from one slot's first guard to the next slot's."""
    return capacity + 2 * GUARD


def map_guarded(fd: int, capacity: int) -> int:
    """Maps the arena in the process that runs kernels and returns its address.

    Raises:
        WorkerError: if the system refuses to map or protect.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = N_SLOTS * slot_size(capacity)
    base = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        raise WorkerError(f"mmap of {size} bytes failed: {os.strerror(ctypes.get_errno())}")
    for slot in range(N_SLOTS):
        first = base + slot * slot_size(capacity)
        for guard in (first, first + GUARD + capacity):
            if libc.mprotect(guard, GUARD, 0):
                raise WorkerError(f"mprotect failed: {os.strerror(ctypes.get_errno())}")
    return int(base)
