"""A state machine over any engine: whatever the order of calls, each sequence is its history."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hotfire.engines import Span, Status
from hotfire.engines.leading import mixed
from hotfire.engines.walked import Walked

N_SEQS = 4


def machine(make, expected, near):
    """The state machine of an engine.

    Args:
        make: opens the engine; it needs N_SEQS sequences.
        expected: tokens -> the row of logits after the last of them, from an oracle.
        near: how far a logit may be off; 0 for equality.
    """
    with make() as engine:
        n_vocab, n_ctx = engine.description.n_vocab, engine.description.n_ctx
    seqs = st.integers(0, N_SEQS - 1)
    ids = st.lists(st.integers(0, n_vocab - 1), min_size=1, max_size=7)

    class Sequences(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            self.engine = Walked(make())
            self.want = {seq: [] for seq in range(N_SEQS)}
            self.began = dict.fromkeys(range(N_SEQS), 0)
            self.saved = [(self.engine.seq_save(0), [])]

        @rule(parts=st.dictionaries(seqs, ids, min_size=1), seed=st.integers(0, 2**16))
        def decode(self, parts, seed):
            """Every row is that of the sequence's history, or nothing was done at all. Tokens of
            several sequences lie mixed, and any of them may be wanted, or none.
            """
            rng = np.random.default_rng(seed)
            spans = [Span(seq, len(self.want[seq]), own) for seq, own in parts.items()]
            batch = mixed(spans, rng, rng.random())
            batch.logits[:] &= (rng.random(len(batch)) < 0.8) | bool(seed % 4)
            rows = self.engine.decode(batch)
            full = [seq for seq, own in parts.items() if len(self.want[seq]) + len(own) > n_ctx]
            if full:
                assert (rows.status, sorted(rows.full)) == (Status.CONTEXT_FULL, sorted(full))
                return
            for seq, own in parts.items():
                self.began[seq] = len(self.want[seq])
                self.want[seq] = self.want[seq] + own
            wanted = np.flatnonzero(batch.logits)
            assert len(rows.argmax) == len(wanted)
            for row, named, at in (
                zip(rows.logits, rows.argmax, wanted, strict=True) if len(wanted) else ()
            ):
                history = self.want[batch.seq_id[at]][: batch.pos[at] + 1]
                assert np.abs(row - expected(history)).max() <= near
                assert row.argmax() == named

        @rule(seq=seqs, back=st.none() | st.integers(0, 12))
        def remove(self, seq, back):
            """It goes back, by some tokens or the last call's, or refuses and is what it was. The
            whole can always go.
            """
            length = len(self.want[seq])
            pos = min(length, self.began[seq]) if back is None else max(0, length - back)
            if self.engine.seq_remove(seq, pos):
                self.want[seq] = self.want[seq][:pos]
            else:
                assert pos

        @rule(source=seqs, to=seqs)
        def copy(self, source, to):
            self.engine.seq_copy(source, to)
            self.want[to] = list(self.want[source])
            self.began[to] = self.began[source]

        @rule(source=seqs, to=seqs, back=st.none() | st.integers(1, 12))
        def fork(self, source, to, back):
            """A copy that goes back at once, as a draft's does that is refused."""
            self.copy(source, to)
            self.remove(to, back)

        @rule(seq=seqs)
        def save(self, seq):
            self.saved.append((self.engine.seq_save(seq), list(self.want[seq])))

        @rule(seq=seqs, which=st.integers(0, 9))
        def restore(self, seq, which):
            saved, tokens = self.saved[which % len(self.saved)]
            self.engine.seq_restore(seq, saved)
            self.want[seq] = list(tokens)

        def teardown(self):
            """Each sequence goes on as its history does; then the engine is closed."""
            if not hasattr(self, "engine"):
                return
            if any(len(tokens) < n_ctx for tokens in self.want.values()):
                self.decode({s: [1] for s, tokens in self.want.items() if len(tokens) < n_ctx}, 1)
            self.engine.close()

    return Sequences
