"""Two sides that were compiled from different headers notice it before anything else happens."""

from __future__ import annotations

import pytest


def test_context_of_automatic_choice_names_a_real_instruction_set(library, open_context):
    """AUTO becomes the widest set that is available."""
    status, context = open_context(isa=0)
    assert status == "ok"
    available = [isa for isa in (1, 2, 3) if library.lib.hotfire_isa_available(isa)]
    assert library.lib.hotfire_context_isa(context) == max(available)
    assert library.ffi.string(library.lib.hotfire_context_error(context)) == b""


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"struct_size": 12}, "abi mismatch"),
        ({"struct_size": 16}, "abi mismatch"),
        ({"struct_size": 24}, "abi mismatch"),
        ({"abi_version": 2}, "abi mismatch"),
        ({"backend": 1}, "unsupported"),
        ({"isa": 99}, "unsupported"),
    ],
)
def test_context_of_another_header_is_refused(library, open_context, changes, want):
    """The status says why, and the pointer is not touched."""
    assert open_context(**changes) == (want, library.ffi.NULL)


def test_context_needs_both_pointers(library):
    """NULL is refused, not followed."""
    ffi, functions = library.ffi, library.lib
    params, handle = ffi.new("hotfire_context_params *"), ffi.new("hotfire_context **")
    invalid = functions.HOTFIRE_STATUS_INVALID_ARGUMENT
    assert functions.hotfire_context_create(ffi.NULL, handle) == invalid
    assert functions.hotfire_context_create(params, ffi.NULL) == invalid
    functions.hotfire_context_free(ffi.NULL)


@pytest.mark.parametrize("isa", [1, 2, 3])
def test_instruction_set_that_the_machine_lacks_is_unsupported(library, open_context, isa):
    """Forcing one never ends in an illegal instruction."""
    want = "ok" if library.lib.hotfire_isa_available(isa) else "unsupported"
    assert open_context(isa=isa)[0] == want


def test_statuses_have_names(library):
    """Each of the enum has its own, any other number is unknown."""
    names = [
        library.ffi.string(library.lib.hotfire_status_name(number)).decode() for number in range(10)
    ]
    assert len(set(names)) == 9
    assert names[8:] == ["unknown", "unknown"]


def test_layout_table_ends(library):
    """It names the quantised blocks, has NULL past its end, and reserves what it says."""
    entries, index = [], 0
    while (entry := library.lib.hotfire_layout(index)) != library.ffi.NULL:
        entries.append(entry)
        index += 1
    assert library.lib.hotfire_layout(2**63) == library.ffi.NULL
    sizes = {
        library.ffi.string(entry.name).decode(): entry.size
        for entry in entries
        if entry.kind == library.lib.HOTFIRE_LAYOUT_RECORD
    }
    assert (sizes["hotfire_block_q8_0"], sizes["hotfire_block_q4_0"]) == (34, 18)
    assert not any(entry.reserved for entry in entries)
