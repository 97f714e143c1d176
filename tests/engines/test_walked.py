"""The transition matrix, counted by hand."""

from hotfire.engines import Batch, Span, Status, open_engine
from hotfire.engines.walked import TRANSITIONS, Walked


class Graphs:
    """An engine that tells of transitions of its own."""

    def __init__(self, engine):
        self.engine = engine

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def counters(self):
        return {**self.engine.counters(), "transition eager to graph": 3}


def walked():
    return Walked(open_engine("hash:n_ctx=40"))


def feed(engine, *spans):
    return engine.decode(Batch.of(Span(seq, pos, [1] * n) for seq, pos, n in spans)).status


def test_calls_of_one_sequence():
    with walked() as engine:
        for pos, n in ((0, 8), (8, 8), (16, 1), (17, 1), (18, 4)):
            feed(engine, (0, pos, n))
        found = engine.transitions
    assert found["chunk to chunk"] == 1
    assert found["prefill to decode"] == 1
    assert found["decode to decode"] == 1
    assert found["decode to prefill"] == 1
    assert sum(found.values()) == 4


def test_going_back_copying_saving():
    with walked() as engine:
        feed(engine, (0, 0, 8))
        engine.seq_remove(0, 5)
        feed(engine, (0, 5, 1))
        engine.seq_copy(0, 1)
        feed(engine, (1, 6, 2))
        engine.seq_restore(2, engine.seq_save(0))
        feed(engine, (2, 6, 1))
        engine.seq_remove(0)
        feed(engine, (0, 0, 3))
        found = engine.transitions
    assert {name: count for name, count in found.items() if count} == {
        "rollback to next": 1, "copy to next": 1, "save to restore": 1, "restore to next": 1,
        "evict to reuse": 1,
    }  # fmt: skip


def test_a_copy_that_goes_back_at_once():
    """Told apart from any other way back, as only it needs snapshots of its own."""
    with walked() as engine:
        feed(engine, (0, 0, 8))
        engine.seq_copy(0, 1)
        engine.seq_remove(1, 7)
        engine.seq_remove(1, 6)
        feed(engine, (1, 6, 1))
        assert engine.stepped == {1: "rollback of a copy to next"}
        assert engine.transitions["rollback of a copy to next"] == 1
        engine.seq_remove(1, 6)
        feed(engine, (1, 6, 1))
        assert engine.stepped == {1: "rollback to next"}


def test_joining_and_leaving():
    """A batch of others altogether is neither."""
    with walked() as engine:
        feed(engine, (0, 0, 1))
        feed(engine, (0, 1, 1), (1, 0, 1), (2, 0, 1))
        feed(engine, (0, 2, 1), (2, 1, 1))
        feed(engine, (5, 0, 1))
        found = engine.transitions
    assert (found["join"], found["leave"]) == (2, 1)


def test_what_was_not_done_is_not_counted():
    with walked() as engine:
        feed(engine, (0, 0, 30))
        assert feed(engine, (0, 30, 11)) is Status.CONTEXT_FULL
        assert not any(engine.transitions.values())
        assert set(engine.transitions) == set(TRANSITIONS)


def test_an_engine_s_own_modes_are_counted():
    with Walked(Graphs(open_engine("hash:"))) as engine:
        assert engine.transitions["eager to graph"] == 3
