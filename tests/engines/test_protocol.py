"""What the protocol promises, of the engines that are simple enough to keep it obviously."""

from dataclasses import replace

import numpy as np
import pytest

from hotfire.engines import Batch, Span, Status, open_engine
from hotfire.errors import InputError

from .conftest import PROBE, feed, tokens

NEAR = 1e-10
"""float64 rounding; the hash engine is exact."""


def near(one, other):
    return np.abs(np.asarray(one) - np.asarray(other)).max() < NEAR


def test_a_batch_lists_its_tokens():
    batch = Batch.of([Span(2, 5, [7, 8], "all"), Span(0, 0, [9, 9, 9]), Span(1, 1, [4], "none")])
    assert batch.token.tolist() == [7, 8, 9, 9, 9, 4]
    assert batch.pos.tolist() == [5, 6, 0, 1, 2, 1]
    assert batch.seq_id.tolist() == [2, 2, 0, 0, 0, 1]
    assert batch.logits.tolist() == [True, True, False, False, True, False]


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_cuts_are_invisible(engine, size):
    ids = tokens(100)
    assert near(feed(engine, 0, 0, ids, size), feed(engine, 1, 0, ids))


def test_neighbours_and_order_are_invisible(engine, fresh):
    """Three sequences, their tokens interleaved in one batch, against each alone."""
    own = [tokens(12, seed) for seed in range(3)]
    want = [feed(fresh, 0, 0, ids)[-1] for ids in own if fresh.seq_remove(0)]
    order = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], 12))
    pos = np.array([(order[:i] == seq).sum() for i, seq in enumerate(order)])
    token = np.array([own[seq][at] for seq, at in zip(order, pos, strict=True)])
    rows = engine.decode(Batch(token, pos, order, pos == 11))
    last = [seq for seq, at in zip(order, pos, strict=True) if at == 11]
    for row, seq in zip(rows.logits, last, strict=True):
        assert near(row, want[seq])


@pytest.mark.parametrize("back", [1, 2, 5, 30])
def test_rollback_is_as_if_it_never_happened(engine, fresh, back):
    """Back over one call, over two, and over more than are kept."""
    ids, draft = tokens(60), tokens(back, 9)
    feed(engine, 0, 0, ids[:40], 7)
    feed(engine, 0, 40, draft, 3)
    assert engine.seq_remove(0, 40)
    feed(engine, 0, 40, draft[:1])
    assert engine.seq_remove(0, 38)
    assert near(feed(engine, 0, 38, ids[38:]), feed(fresh, 0, 0, ids)[38:])


def test_a_removed_sequence_leaves_nothing(engine, fresh):
    feed(engine, 0, 0, tokens(50, 3))
    assert engine.seq_remove(0)
    assert near(feed(engine, 0, 0, tokens(20)), feed(fresh, 5, 0, tokens(20)))


def test_copies_go_on_apart(engine, fresh):
    ids = tokens(30)
    feed(engine, 0, 0, ids[:20])
    engine.seq_copy(0, 3)
    feed(engine, 0, 20, tokens(10, 8))
    assert near(feed(engine, 3, 20, ids[20:]), feed(fresh, 0, 0, ids)[20:])
    engine.seq_copy(7, 3)
    assert near(feed(engine, 3, 0, ids[:5]), feed(fresh, 1, 0, ids[:5]))


def test_a_saved_sequence_goes_on_elsewhere(engine, fresh):
    ids = tokens(30)
    want = feed(engine, 0, 0, ids)[20:]
    assert engine.seq_remove(0, 20)
    fresh.seq_restore(4, engine.seq_save(0))
    assert near(feed(fresh, 4, 20, ids[20:]), want)


@pytest.mark.parametrize(
    "saved", [b"", b"{}", b"\0" * 40, b'{"seed": 0, "tokens": [999]}', b"\xff"]
)
def test_foreign_states_are_refused(engine, saved):
    feed(engine, 0, 0, tokens(5))
    with pytest.raises(InputError):
        engine.seq_restore(0, saved)
    feed(engine, 0, 5, tokens(1))


@pytest.mark.parametrize("beside", [0, 3])
@pytest.mark.parametrize("past", [-1, 0, 1])
def test_context_exhaustion_is_a_status(engine, fresh, past, beside):
    """At n_ctx - 1, n_ctx and n_ctx + 1 tokens, alone and beside three others."""
    n_ctx = engine.description.n_ctx
    ids = tokens(n_ctx + 1)
    others = [Span(seq + 1, 0, tokens(6, seq), "last") for seq in range(beside)]
    feed(engine, 0, 0, ids[: n_ctx - 2])
    batch = [Span(0, n_ctx - 2, ids[n_ctx - 2 : n_ctx + past], "all"), *others]
    rows = engine.decode(Batch.of(batch))
    if past <= 0:
        assert rows.status is Status.OK
        assert len(rows.logits) == 2 + past + beside
        return
    assert (rows.status, rows.full, rows.logits) == (Status.CONTEXT_FULL, (0,), None)
    # Nothing was done: the same neighbours and the two tokens that fit are accepted now.
    rows = engine.decode(Batch.of([Span(0, n_ctx - 2, ids[n_ctx - 2 : n_ctx]), *others]))
    assert rows.status is Status.OK
    want = [feed(fresh, 0, 0, ids[:n_ctx])[-1]]
    want += [feed(fresh, seq + 1, 0, tokens(6, seq))[-1] for seq in range(beside)]
    assert near(rows.logits, want)


def _span(**changes):
    return Batch.of([Span(**{"seq_id": 0, "pos": 0, "tokens": [1, 2], **changes})])


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (Batch.of([]), "a batch of 0"),
        (_span(tokens=[1] * 5000), "a batch of 5000"),
        (_span(tokens=[128]), "token 128"),
        (_span(tokens=[-1]), "token -1"),
        (_span(seq_id=64), "seq_id 64"),
        (_span(seq_id=-1), "seq_id -1"),
        (_span(pos=1), "position 1; expected 0"),
        (Batch.of([Span(0, 0, [1]), Span(0, 0, [1])]), "position 0; expected 1"),
        (replace(_span(), logits=np.ones(1, dtype=bool)), r"batch.logits has shape \[1\]"),
        (replace(_span(), seq_id=np.zeros(3, dtype=int)), r"batch.seq_id has shape \[3\]"),
        (replace(_span(), pos=np.zeros((1, 2), dtype=int)), r"batch.pos has shape \[1, 2\]"),
        (replace(_span(), token=[1, 2]), "batch.token has shape"),
        (replace(_span(), token=np.array(1)), "batch.token has shape"),
        (replace(_span(), token=np.array([1.5, 2.5])), "batch.token is of float64"),
        (replace(_span(), logits=np.array([2, 3])), "batch.logits is of int64; expected bool"),
    ],
)
def test_impossible_batches_do_nothing(engine, fresh, batch, says):
    with pytest.raises(InputError, match=says):
        engine.decode(batch)
    assert near(feed(engine, 0, 0, tokens(4)), feed(fresh, 0, 0, tokens(4)))


@pytest.mark.parametrize("kind", ["hash", "numpy", "native", "transformers"])
def test_a_state_of_other_weights_is_refused(kind):
    """Though every size is the same."""
    if kind == "transformers":
        pytest.importorskip("transformers")
    model = f"{kind}:{'n_vocab=128' if kind == 'hash' else PROBE}"
    with open_engine(model) as engine, open_engine(f"{model},seed=1") as other:
        feed(engine, 0, 0, tokens(5))
        want = feed(other, 0, 0, tokens(9))
        assert other.seq_remove(0)
        feed(other, 0, 0, tokens(5))
        with pytest.raises(InputError, match="another"):
            other.seq_restore(0, engine.seq_save(0))
        assert np.abs(feed(other, 0, 5, tokens(9)[5:]) - want[5:]).max() < 1e-4


@pytest.mark.parametrize("seq_id", [-1, 16, 2**40])
def test_sequences_that_are_none_are_refused(engine, seq_id):
    """By each call that names one."""
    saved = engine.seq_save(0)
    n_seqs = engine.description.n_seqs
    for call in (
        lambda: engine.seq_remove(seq_id),
        lambda: engine.seq_copy(0, seq_id),
        lambda: engine.seq_copy(seq_id, 0),
        lambda: engine.seq_save(seq_id),
        lambda: engine.seq_restore(seq_id, saved),
    ):
        with pytest.raises(InputError, match=f"seq_id {seq_id}; expected 0 to {n_seqs - 1}"):
            call()


@pytest.mark.parametrize("pos", [5, 9, 2**31, 2**70])
def test_removing_what_is_not_there_does_nothing(engine, fresh, pos):
    """From the end on, or beyond."""
    feed(engine, 0, 0, tokens(5))
    assert engine.seq_remove(0, pos)
    assert engine.seq_remove(1, pos)
    with pytest.raises(InputError, match="position -1"):
        engine.seq_remove(0, -1)
    assert near(feed(engine, 0, 5, tokens(3)), feed(fresh, 0, 0, tokens(5) + tokens(3))[5:])


def test_argmax_rows_carry_no_logits(engine, fresh):
    want = feed(fresh, 0, 0, tokens(9)).argmax(axis=1)
    rows = engine.decode(Batch.of([Span(0, 0, tokens(9), "all")], argmax_only=True))
    assert rows.logits is None
    assert rows.argmax.tolist() == want.tolist()


def test_counters_count(engine):
    feed(engine, 0, 0, tokens(10), 4)
    counts = engine.counters()
    assert (counts["n_decodes"], counts["n_tokens"], counts["n_rows"]) == (3, 10, 10)


def test_a_closed_engine_says_so(engine):
    engine.close()
    engine.close()
    with pytest.raises(InputError, match="closed"):
        engine.decode(_span())
    with pytest.raises(InputError, match="closed"):
        engine.seq_remove(0)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "expected one of hash:"),
        ("numpy", "expected one of hash:"),
        ("cobol:probe", "expected one of hash:"),
        ("hash:model", "takes no model"),
        ("hash:n_vocab=x", "whole number"),
        ("hash:n_vocab=1", "n_vocab=1"),
        ("hash:seed=1,seed=2", "given twice"),
        ("hash:speed=1", "'speed' is not known"),
        ("numpy:probe,extra", "no option=value"),
        ("numpy:probe,n_embed=4", "'n_embed' is not known"),
        ("numpy:nowhere", "no model 'nowhere'"),
        ("numpy:", "no model ''"),
        ("numpy:nowhere,n_embd=64", "only a probe"),
        (f"numpy:{PROBE},fault=none", "fault 'none' is not known"),
    ],
)
def test_impossible_targets_are_refused(target, says):
    with pytest.raises(InputError, match=says):
        open_engine(target)
