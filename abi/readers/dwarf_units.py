"""Which compilation units of a binary are worth reading, told without reading them.

A name of more than a few letters is kept once, in `.debug_str`, and a unit refers to it by its
offset. A unit whose bytes hold none of the wanted names' offsets does not speak of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any


def mentioning(info: Any, names: frozenset[str] | None) -> Callable[[Any], bool]:
    """A test of units: whether one may speak of any of the names; of anything if names is None."""
    strings, entries = info.debug_str_sec, info.debug_info_sec
    if names is None or strings is None or getattr(info, "debug_str_offsets_sec", None) is not None:
        # With an index of strings between them, bytes say nothing.
        return lambda _unit: True
    table, data = _bytes(strings), _bytes(entries)
    order = "<" if info.config.little_endian else ">"
    patterns = []
    for name in names:
        text = name.encode() + b"\0"
        patterns.append(text)
        # Strings share their tails, so that a name may end one that is longer.
        patterns += [struct.pack(order + "I", at) for at in _places(table, text)]
    wanted = re.compile(b"|".join(re.escape(pattern) for pattern in patterns) or b"(?!)")

    def test(unit: Any) -> bool:
        end = unit.cu_offset + unit["unit_length"] + unit.structs.initial_length_field_size()
        return wanted.search(data, unit.cu_offset, end) is not None

    return test


def is_standard_library(top: Any) -> bool:
    """Whether a Rust unit is a part of its standard library, which mirrors nothing."""
    for name in ("DW_AT_name", "DW_AT_comp_dir"):
        found = top.attributes.get(name)
        if found is not None and b"/rustc/" in bytes(found.value):
            return True
    return False


def _bytes(section: Any) -> bytes:
    section.stream.seek(0)
    return bytes(section.stream.read())


def _places(table: bytes, text: bytes) -> list[int]:
    found, at = [], table.find(text)
    while at >= 0:
        found.append(at)
        at = table.find(text, at + 1)
    return found
