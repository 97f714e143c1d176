"""Each relation on a healthy adapter, and on one with the fault that it is there for."""

import time

import pytest

from hotfire.props.execute import Subject
from hotfire.props.properties import PROPERTIES
from hotfire.props.runner import Runner
from hotfire.props.search import search

from .toys import DECAY, MEAN, adapter_text

TOYS = {each.name: each for each in (DECAY, MEAN)}

# What is wrong, where it is written, and which property says so.
FAULTS = {
    "history_lost_at_chunk_starts_of_4": (
        "decay",
        {"token": "g = 0 * g if t > first and (t - first) % 4 == 0 else g"},
        "agrees_with_reference",
    ),
    "history_lost_at_chunk_starts_of_64": (
        "decay",
        {"token": "g = 0 * g if t > first and (t - first) % 64 == 0 else g"},
        "holds_at_length",
    ),
    "history_lost_at_chunk_starts_of_512": (
        "decay",
        {"before": "if end - first == 512 or (end - first) % 512 == 0: state[i] = 0"},
        "holds_at_length",
    ),
    "state_zeroed_at_every_call": ("decay", {"before": "state[i] = 0"}, "chunks_are_invisible"),
    "short_chunk_leaves_the_old_state": (
        "decay",
        {"before": "old = state[i].copy()", "after": "if end - first < 3: state[i] = old"},
        "chunks_are_invisible",
    ),
    "final_gate_of_the_chunks_last_index": (
        "decay",
        {"after": "if s > 1 and n: state[i] *= np.exp(gate[n - 1] - gate[end - 1])"},
        "chunks_are_invisible",
    ),
    "rollback_leaves_the_draft": (
        "decay",
        {
            "before": "if n in memory: state[i] += memory[n] * np.float32(1e-6)",
            "after": "memory[n] = float(state[i].sum())",
        },
        "rollback_leaves_nothing",
    ),
    "step_goes_on_from_the_call_before": (
        "decay",
        {
            "before": "if n == 1 and memory.get('last', state[0]).shape == state.shape: "
            "state[:] = memory['last']",
            "after": "memory['last'] = state.copy()",
        },
        "rollback_leaves_nothing",
    ),
    "state_kept_in_bf16": (
        "decay",
        {"after": "state[i] = (state[i].view(np.uint32) & 0xFFFF0000).view(np.float32)"},
        "keeps_precision",
    ),
    "fresh_state_is_read": (
        "decay",
        {"fresh": "state[i] *= 0"},
        "fresh_states_are_never_read",
    ),
    "neighbours_state_is_added": (
        "decay",
        {"before": "state[i] += 0 * state[0]"},
        "neighbours_are_invisible",
    ),
    "key_dropped_at_a_split_boundary": (
        "running_mean",
        {
            "parts": "parts = [part[: -1 if k > 14000 and j else None] for j, part in "
            "enumerate(parts)]"
        },
        "holds_at_length",
    ),
    "later_rows_of_the_pool_are_read": (
        "running_mean",
        {"parts": "parts[0] = parts[0] + 0 * v[:, :1].sum()"},
        "neighbours_are_invisible",
    ),
    "splits_rounded_to_sixty_fourths": (
        "running_mean",
        {
            "parts": "parts = parts if n_splits == 1 else [np.round(part * 64) / np.float32(64) "
            "for part in parts]"
        },
        "cuts_are_invisible",
    ),
}


def found_by(path, operation, only=None, share=1.0):
    """The properties that fail, with the seconds and examples that each took."""
    failing = {}
    with Runner(str(path)) as runner:
        kernel = next(each for each in runner.kernels if each.operation == operation)
        subject = Subject(runner, kernel, TOYS[operation])
        for stated in PROPERTIES:
            if stated.applies(subject) and only in (None, stated.name):
                start = time.monotonic()
                found = search(subject, stated, round(100 * share), seed=0, make_small=False)
                if found.broken:
                    failing[stated.name] = (time.monotonic() - start, found)
    return failing


@pytest.mark.parametrize("operation", TOYS)
def test_a_healthy_adapter_breaks_no_relation(tmp_path, operation):
    """No false alarm, on any relation that speaks of it."""
    path = tmp_path / "healthy.py"
    path.write_text(adapter_text())
    failing = found_by(path, operation)
    assert not failing, {name: str(found.broken) for name, (_, found) in failing.items()}


@pytest.mark.parametrize("name", FAULTS)
def test_the_relation_finds_its_fault(tmp_path, name):
    """Named, within ten seconds."""
    operation, places, stated = FAULTS[name]
    path = tmp_path / "faulty.py"
    path.write_text(adapter_text(**places))
    failing = found_by(path, operation, only=stated)
    assert stated in failing
    seconds, found = failing[stated]
    assert seconds < 10
    assert found.broken.rule == stated
