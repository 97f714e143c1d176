"""Two sides that were compiled from different headers notice it before anything else happens."""

from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"struct_size": 12}, "params.struct_size is 12; expected 20"),
        ({"abi_version": 2}, "params.abi_version is 2; expected 1"),
        ({"n_threads": 5000}, "n_threads is 5000; expected at most 1024"),
        ({"backend": 1}, "backend is 1; expected 0, the CPU"),
        ({"isa": 99}, "this machine cannot run isa 99 (unknown); expected 0 (auto)"),
    ],
)
def test_a_context_that_is_not_made_says_why(library, open_context, changes, says):
    """There is no context to ask yet: the thread has the text."""
    open_context(**changes)
    text = library.ffi.string(library.lib.hotfire_context_error(library.ffi.NULL)).decode()
    assert says in text


NOTHING = """
from hotfire import lib
library = lib.load()
ffi, c = library.ffi, library.lib
for name in sorted(lib.mirror().functions):
    kind = ffi.typeof(getattr(c, name))
    zeros = [ffi.NULL if each.kind == "pointer" else 0 for each in kind.args]
    answer = getattr(c, name)(*zeros)
    is_status = kind.result.cname == "hotfire_status"
    print(name, answer if kind.result.kind in ("primitive", "enum") else "-", is_status, flush=True)
    if is_status and name != "hotfire_status_name":
        said = ffi.string(c.hotfire_context_error(ffi.NULL)).decode()
        assert said.endswith(" is NULL"), (name, said)
print(c.hotfire_context_isa(ffi.NULL), c.hotfire_engine_seq_length(ffi.NULL, 0))
"""


def test_every_function_stands_nothing_at_all(library):
    """Each function of both headers, with NULL and 0 for everything: a status and the reason."""
    done = subprocess.run(
        [sys.executable, "-c", NOTHING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
    *called, last = [line.split() for line in done.stdout.splitlines()]
    statuses = [int(answer) for _, answer, is_status in called if is_status == "True"]
    assert set(statuses) == {library.lib.HOTFIRE_STATUS_INVALID_ARGUMENT}
    assert len(statuses) > 40
    assert last == ["0", "-1"]


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
