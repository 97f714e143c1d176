"""The hash engine against a few lines of its own, and driven by a state machine."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hotfire.engines import Batch, Span, Status
from hotfire.engines.hashing import HashEngine, mix
from hotfire.engines.walked import Walked

N_VOCAB, N_CTX, N_SEQS = 16, 24, 4


def test_mix_is_splitmix64():
    """The first output of splitmix64 from state 0, as published."""
    assert mix(0) == 0xE220A8397B1DCDAF


def expected(tokens):
    """The argmax after a history, by another formula: one dictionary, no arrays."""
    state = mix(0)
    for token in tokens:
        state = mix(state ^ mix(token + 1))
    top = {v: mix((state + v) % 2**64) >> 40 for v in range(N_VOCAB)}
    return min(top, key=lambda v: (-top[v], v))


def test_next_tokens_are_spread():
    """Over 2,000 histories each of 16 ids wins about as often as the others."""
    wins = np.bincount([expected([i % 16, i // 16]) for i in range(2000)], minlength=N_VOCAB)
    assert wins.min() > 80
    assert wins.max() < 175


class Sequences(RuleBasedStateMachine):
    """Any order of calls leaves each sequence with exactly its own history."""

    seqs = st.integers(0, N_SEQS - 1)
    ids = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=7)

    @initialize()
    def begin(self):
        self.engine = Walked(
            HashEngine("hash:", n_vocab=N_VOCAB, n_ctx=N_CTX, n_seqs=N_SEQS, n_batch=64)
        )
        self.want = {seq: [] for seq in range(N_SEQS)}
        self.saved = [(self.engine.seq_save(0), [])]

    @rule(parts=st.dictionaries(seqs, ids, min_size=1))
    def decode(self, parts):
        spans = [Span(seq, len(self.want[seq]), own) for seq, own in parts.items()]
        rows = self.engine.decode(Batch.of(spans, argmax_only=True))
        full = [seq for seq, own in parts.items() if len(self.want[seq]) + len(own) > N_CTX]
        if full:
            assert (rows.status, list(rows.full)) == (Status.CONTEXT_FULL, full)
            return
        for seq, own in parts.items():
            self.want[seq] = self.want[seq] + own
        assert rows.argmax.tolist() == [expected(self.want[seq]) for seq in parts]

    @rule(seq=seqs, part=st.floats(0, 1))
    def remove(self, seq, part):
        pos = int(part * len(self.want[seq]))
        assert self.engine.seq_remove(seq, pos)
        self.want[seq] = self.want[seq][:pos]

    @rule(source=seqs, to=seqs)
    def copy(self, source, to):
        self.engine.seq_copy(source, to)
        self.want[to] = list(self.want[source])

    @rule(seq=seqs)
    def save(self, seq):
        self.saved.append((self.engine.seq_save(seq), list(self.want[seq])))

    @rule(seq=seqs, which=st.integers(0, 9))
    def restore(self, seq, which):
        saved, tokens = self.saved[which % len(self.saved)]
        self.engine.seq_restore(seq, saved)
        self.want[seq] = list(tokens)

    @invariant()
    def every_sequence_is_its_history(self):
        """Asked through a copy into a fresh engine, so that asking changes nothing."""
        for seq, tokens in getattr(self, "want", {}).items():
            other = HashEngine("hash:", n_vocab=N_VOCAB, n_ctx=N_CTX + 1)
            other.seq_restore(0, self.engine.seq_save(seq))
            rows = other.decode(Batch.of([Span(0, len(tokens), [3])], argmax_only=True))
            assert rows.argmax.tolist() == [expected([*tokens, 3])]


Sequences.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSequences = Sequences.TestCase
