"""What happens around a full context, as JSON: `python edges.py TARGET`.

At n_ctx - 1, n_ctx and n_ctx + 1 tokens, alone and beside three sequences, for each slot: the
status, and whether the neighbours' rows are the bits that they have alone. Run by itself it can
have a library with sanitizers underneath.
"""

import json
import sys

import numpy as np

from hotfire.engines import Batch, Span, open_engine


def edges(target):
    """[slot, beside, past, status, neighbours unchanged] for every case."""
    with open_engine(target) as engine:
        n_ctx, n_vocab = engine.description.n_ctx, engine.description.n_vocab
        drawn = np.random.default_rng(0).integers(0, n_vocab, (5, n_ctx + 1)).tolist()
        alone = [one_by_one(engine, 0, drawn[1 + other][:6]) for other in range(3)]
        for slot in range(4):
            for beside in (0, 3):
                for past in (-1, 0, 1):
                    yield [slot, beside, past, *one(engine, drawn, slot, beside, past, alone)]


def one(engine, drawn, slot, beside, past, alone):
    n_ctx = engine.description.n_ctx
    for seq in range(4):
        engine.seq_remove(seq)
    ids, others = drawn[0], [seq for seq in range(4) if seq != slot][:beside]
    engine.decode(Batch.of([Span(slot, 0, ids[: n_ctx - 2], "none")]))
    for seq, own in zip(others, drawn[1:], strict=False):
        engine.decode(Batch.of([Span(seq, 0, own[:5], "none")]))
    last = Span(slot, n_ctx - 2, ids[n_ctx - 2 : n_ctx + past])
    spans = [Span(seq, 5, own[5:6]) for seq, own in zip(others, drawn[1:], strict=False)]
    rows = engine.decode(Batch.of([last, *spans]))
    status, rows = rows.status, rows.logits[1:] if rows.logits is not None else None
    if rows is None and spans:  # nothing was done: the neighbours alone are accepted now
        rows = engine.decode(Batch.of(spans)).logits
    same = all(
        np.array_equal(row, want) for row, want in zip(rows if beside else [], alone, strict=False)
    )
    return int(status), same


def one_by_one(engine, seq, ids):
    """The last row of a sequence of its own, given token by token."""
    engine.seq_remove(seq)
    for at, token in enumerate(ids):
        rows = engine.decode(Batch.of([Span(seq, at, [token])]))
    return rows.logits[0]


if __name__ == "__main__":
    print(json.dumps(list(edges(sys.argv[1]))))
