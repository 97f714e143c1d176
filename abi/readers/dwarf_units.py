"""Which compilation units of a binary are worth reading, told without reading them.

A name of more than a few letters is kept once, in `.debug_str`, and a unit refers to it by its
offset. A unit whose bytes hold none of the wanted names' offsets does not speak of them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

from hotfire.errors import InputError


def mentioning(info: Any, names: frozenset[str] | None) -> Callable[[Any], bool]:
    """A test of units: whether one may speak of any of the names; of anything if names is None."""
    strings, entries = info.debug_str_sec, info.debug_info_sec
    if names is None or strings is None or getattr(info, "debug_str_offsets_sec", None) is not None:
        # With an index of strings between them, bytes say nothing.
        return lambda _unit: True
    table, data = _bytes(strings), _bytes(entries)
    if b"rustc version" in table:
        # Rust mirrors may spell the names their own way.
        return lambda _unit: True
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


def children(entry: Any) -> Iterator[Any]:
    """The entries directly below one; a damaged link that leads back is refused, not followed.

    pyelftools would walk in a circle for ever.
    """
    if not entry.has_children:
        return
    unit = entry.cu
    at = entry.offset + entry.size
    while True:
        child = unit.get_DIE_from_refaddr(at)
        if child.is_null():
            return
        yield child
        at = _end(child)


def _end(entry: Any) -> int:
    """Where the entry after this one's last descendant starts."""
    own = int(entry.offset + entry.size)
    if not entry.has_children:
        return own
    link = entry.attributes.get("DW_AT_sibling")
    if link is not None:
        found = int(link.value)
        if link.form != "DW_FORM_ref_addr":
            found += int(entry.cu.cu_offset)
        if found <= own:
            raise InputError("the debug information links back to itself")
        return found
    # Walked without recursion, as a hostile file may nest without end.
    depth, at = 1, own
    while depth:
        below = entry.cu.get_DIE_from_refaddr(at)
        at += below.size
        if below.is_null():
            depth -= 1
        elif below.has_children:
            depth += 1
    return at
