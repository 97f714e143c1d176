"""The part that simple engines share: sequences one after another, states that never change.

A subclass says what a fresh state is and how tokens lead from one to the next. As states are
values, a copy is a reference, and rolling back means taking an earlier state and repeating the
tokens since: obvious, slow, and right.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.closing import Closing
from hotfire.engines.protocol import Batch, Description, Rows, Status, check_batch
from hotfire.errors import InputError

S = TypeVar("S")
"""A sequence's state; never changed in place."""

Floats = NDArray[np.float64]
N_SNAPSHOTS = 8


@dataclass(frozen=True)
class Step(Generic[S]):
    """What tokens lead to.

    Args:
        state: after them.
        logits: [n_tokens, n_vocab].
        hidden: [n_layers + 1, n_tokens, n_embd], or None.
        router_margin: [n_tokens], or None.
    """

    state: S
    logits: NDArray[np.floating]
    hidden: NDArray[np.floating] | None = None
    router_margin: Floats | None = None


@dataclass
class Held(Generic[S]):
    """A sequence: its tokens, its state, and a few earlier states by their lengths."""

    state: S
    tokens: list[int] = field(default_factory=list)
    earlier: deque[tuple[int, S]] = field(default_factory=lambda: deque(maxlen=N_SNAPSHOTS))


class Sequential(Closing, ABC, Generic[S]):
    """An engine that computes its sequences one after another.

    Args:
        description: what it is.
    """

    def __init__(self, description: Description) -> None:
        self._description = description
        self._held: dict[int, Held[S]] = {}
        self._counters: Counter[str] = Counter()
        self._closed = False

    @abstractmethod
    def fresh(self) -> S:
        """The state of a sequence without tokens."""

    @abstractmethod
    def advance(self, state: S, tokens: Sequence[int], hidden: bool) -> Step[S]:
        """Appends tokens to a state."""

    @abstractmethod
    def dump(self, held: Held[S]) -> bytes:
        """A sequence as bytes."""

    @abstractmethod
    def load(self, saved: bytes) -> Held[S]:
        """The inverse of `dump`; raises InputError for other bytes."""

    def head_of(self, held: Held[S]) -> bytes:
        """What a sequence's bytes may begin with: its tokens, and whose they are."""
        head = {"weights": self._description.scope.get("weights"), "tokens": held.tokens}
        return json.dumps(head).encode()

    def tokens_of(self, head: bytes) -> list[int]:
        """The inverse of `head_of`.

        Raises:
            InputError: if it is none, or of other weights.
        """
        try:
            tree = json.loads(head)
            weights, tokens = tree["weights"], [int(token) for token in tree["tokens"]]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"these bytes are no saved state: {error}") from None
        known = all(0 <= token < self._description.n_vocab for token in tokens)
        if weights != self._description.scope.get("weights") or not known:
            raise InputError("these bytes are the state of another model")
        return tokens

    @property
    def description(self) -> Description:
        return self._description

    def decode(self, batch: Batch) -> Rows:
        self._check_open()
        n_past = {seq_id: len(held.tokens) for seq_id, held in self._held.items()}
        places = check_batch(batch, self._description, n_past)
        full = [
            seq_id
            for seq_id, where in places.items()
            if n_past.get(seq_id, 0) + len(where) > self._description.n_ctx
        ]
        if full:
            return Rows(status=Status.CONTEXT_FULL, full=tuple(full))
        steps = self._advance_all(batch, places)
        self._counters["n_decodes"] += 1
        self._counters["n_tokens"] += len(batch)
        return self._rows(batch, places, steps)

    def _advance_all(
        self, batch: Batch, places: Mapping[int, NDArray[np.intp]]
    ) -> dict[int, Step[S]]:
        steps: dict[int, Step[S]] = {}
        for seq_id, where in places.items():
            held = self._held.setdefault(seq_id, Held(self.fresh()))
            tokens = batch.token[where].tolist()
            step = self.advance(held.state, tokens, batch.hidden)
            held.earlier.append((len(held.tokens), held.state))
            held.tokens += tokens
            held.state = step.state
            steps[seq_id] = step
        return steps

    def _rows(
        self, batch: Batch, places: Mapping[int, NDArray[np.intp]], steps: Mapping[int, Step[S]]
    ) -> Rows:
        """Picks the wanted tokens' results, in batch order."""
        wanted = np.flatnonzero(batch.logits)
        self._counters["n_rows"] += len(wanted)
        if not len(wanted):
            return Rows()
        inside = np.empty(len(batch), dtype=np.int64)
        for where in places.values():
            inside[where] = np.arange(len(where))
        chosen = [(steps[int(batch.seq_id[i])], int(inside[i])) for i in wanted]
        logits = np.stack([step.logits[at] for step, at in chosen])
        hidden = [step.hidden[:, at] for step, at in chosen if step.hidden is not None]
        margin = [step.router_margin[at] for step, at in chosen if step.router_margin is not None]
        return Rows(
            logits=None if batch.argmax_only else logits,
            argmax=logits.argmax(axis=1).astype(np.int64),
            hidden=np.stack(hidden) if hidden else None,
            router_margin=np.array(margin) if margin else None,
        )

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        held = self._sequence(seq_id)
        if held is None or pos >= len(held.tokens):
            return True
        if pos < 0:
            raise InputError(f"position {pos}; expected 0 or more")
        self._counters["n_removes"] += 1
        if pos == 0:
            del self._held[seq_id]
            return True
        while held.earlier and held.earlier[-1][0] > pos:
            held.earlier.pop()
        at, state = held.earlier[-1] if held.earlier else (0, self.fresh())
        again = held.tokens[at:pos]
        self._counters["n_tokens_repeated"] += len(again)
        held.state = self.advance(state, again, False).state if again else state
        held.tokens = held.tokens[:pos]
        return True

    def seq_copy(self, source: int, target: int) -> None:
        held = self._sequence(source)
        self._sequence(target)
        self._counters["n_copies"] += 1
        if held is None:
            self._held.pop(target, None)
        elif source != target:
            self._held[target] = Held(
                held.state, list(held.tokens), deque(held.earlier, maxlen=N_SNAPSHOTS)
            )

    def seq_save(self, seq_id: int) -> bytes:
        self._counters["n_saves"] += 1
        return self.dump(self._sequence(seq_id) or Held(self.fresh()))

    def seq_restore(self, seq_id: int, saved: bytes) -> None:
        self._sequence(seq_id)
        held = self.load(saved)
        if len(held.tokens) > self._description.n_ctx:
            raise InputError(
                f"a saved state of {len(held.tokens)} tokens; this engine has room for "
                f"{self._description.n_ctx}"
            )
        self._counters["n_restores"] += 1
        self._held[seq_id] = held

    def _sequence(self, seq_id: int) -> Held[S] | None:
        self._check_open()
        if not 0 <= seq_id < self._description.n_seqs:
            raise InputError(f"seq_id {seq_id}; expected 0 to {self._description.n_seqs - 1}")
        return self._held.get(seq_id)

    def counters(self) -> Mapping[str, int]:
        return dict(self._counters)

    def close(self) -> None:
        self._closed = True
        self._held.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self._description.name} was closed; open it again")
