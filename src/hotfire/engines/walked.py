"""Which transitions of state a run has walked: a pass needs the path to have been walked.

Wrap an engine in `Walked`, use it as ever, and read `transitions`. What is counted, a sequence at a
time unless it says otherwise:

    prefill to decode, decode to prefill, chunk to chunk, decode to decode
    save to restore, restore to next, copy to next, rollback to next, evict to reuse
    rollback of a copy to next (it was copied and went back at once)
    join (a sequence is decoded beside others that were there before), leave (one is missing)

A call with several tokens of a sequence is a chunk, the first of them a prefill too. Transitions
of the engine's own, such as eager to graph, come from its counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from hotfire.engines.closing import Closing
from hotfire.engines.protocol import Batch, Description, Engine, Rows, Status

TRANSITIONS = (
    "prefill to decode", "decode to prefill", "chunk to chunk", "decode to decode",
    "save to restore", "restore to next", "copy to next", "rollback to next", "evict to reuse",
    "join", "leave",
)  # fmt: skip
"""The transitions that every engine can be walked through, without its own modes."""

START = "start"
"""What a sequence that never was does first; no transition."""

_OWN = "transition "
_OF_COPY = "rollback of a copy"
_STEPS = {
    ("chunk", "decode"): "prefill to decode",
    ("chunk", "chunk"): "chunk to chunk",
    ("decode", "decode"): "decode to decode",
    ("decode", "chunk"): "decode to prefill",
}


class Walked(Closing):
    """An engine that keeps count of what was done with it.

    Args:
        engine: the engine; closing this closes it.

    Attributes:
        stepped: for each sequence of the last decode, the transition that led to it, or `START`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._counts: Counter[str] = Counter()
        self._last: dict[int, str] = {}
        self._evicted: set[int] = set()
        self._running: frozenset[int] = frozenset()
        self.stepped: dict[int, str] = {}

    @property
    def transitions(self) -> dict[str, int]:
        """Counts by name, zeros included, and the engine's own."""
        own = {
            name.removeprefix(_OWN): count
            for name, count in self.engine.counters().items()
            if name.startswith(_OWN)
        }
        return {**dict.fromkeys(TRANSITIONS, 0), **self._counts, **own}

    @property
    def description(self) -> Description:
        return self.engine.description

    def decode(self, batch: Batch) -> Rows:
        rows = self.engine.decode(batch)
        if rows.status is not Status.OK:
            return rows
        ids, counts = np.unique(batch.seq_id, return_counts=True)
        now = frozenset(ids.tolist())
        if self._running and now & self._running:
            self._counts["join"] += len(now - self._running)
            self._counts["leave"] += len(self._running - now)
        self._running = now
        self.stepped = {}
        for seq_id, n_tokens in zip(ids.tolist(), counts.tolist(), strict=True):
            self._step(seq_id, "chunk" if n_tokens > 1 else "decode")
        return rows

    def _step(self, seq_id: int, kind: str) -> None:
        before = self._last.get(seq_id)
        if before in ("restore", "copy", "rollback", _OF_COPY):
            name = f"{before} to next"
        elif before is not None:
            name = _STEPS[before, kind]
        else:
            name = "evict to reuse" if seq_id in self._evicted else START
        self.stepped[seq_id] = name
        if name != START:
            self._counts[name] += 1
        self._evicted.discard(seq_id)
        self._last[seq_id] = kind

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        done = self.engine.seq_remove(seq_id, pos)
        if done and pos == 0 and self._last.pop(seq_id, None) is not None:
            self._evicted.add(seq_id)
        elif done and pos and seq_id in self._last:
            of_copy = self._last[seq_id] in ("copy", _OF_COPY)
            self._last[seq_id] = _OF_COPY if of_copy else "rollback"
        return done

    def seq_copy(self, source: int, target: int) -> None:
        self.engine.seq_copy(source, target)
        self._last[target] = "copy"

    def seq_save(self, seq_id: int) -> bytes:
        return self.engine.seq_save(seq_id)

    def seq_restore(self, seq_id: int, saved: bytes) -> None:
        self.engine.seq_restore(seq_id, saved)
        self._counts["save to restore"] += 1
        self._last[seq_id] = "restore"

    def counters(self) -> Mapping[str, int]:
        return self.engine.counters()

    def close(self) -> None:
        self.engine.close()
