"""Small engines, and the ways in which tests drive them."""

import numpy as np
import pytest

from hotfire.engines import Batch, Span, open_engine

PROBE = "probe,n_layers=4,n_vocab=128,n_ctx=256"


def tokens(n, seed=0, n_vocab=128):
    return np.random.default_rng(seed).integers(0, n_vocab, n).tolist()


def feed(engine, seq_id, pos, ids, size=1000):
    """Feeds tokens in calls of `size`; all rows."""
    rows = []
    for at in range(0, len(ids), size):
        got = engine.decode(Batch.of([Span(seq_id, pos + at, ids[at : at + size], "all")]))
        rows.append(got.logits)
    return np.concatenate(rows)


@pytest.fixture(
    params=["hash:n_vocab=128,n_ctx=256", f"numpy:{PROBE}", f"native:{PROBE},rollback=20"]
)
def engine(request):
    with open_engine(request.param) as opened:
        yield opened


@pytest.fixture
def fresh(engine):
    """Another engine of the same model."""
    with open_engine(engine.description.name) as opened:
        yield opened
