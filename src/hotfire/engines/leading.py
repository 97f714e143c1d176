"""Ways to lead an engine along a track: cut in chunks, or on a walk through its states."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hotfire.engines.compare import Floats
from hotfire.engines.protocol import Batch, Engine, Integers, Rows, Span
from hotfire.engines.tracks import Track, decode, rows_of
from hotfire.engines.walked import Walked
from hotfire.errors import InputError

WALK_SIZES = (1, 2, 3, 4, 5, 7, 15, 16, 17, 33)
"""Tokens of a call on a walk: around widths at which some engine changes its path. A size is drawn
as often as it is short: the more calls, the more can happen between them.
"""
PAIRS = ((1, 1), (1, 5), (16, 1), (3, 17), (33, 4))
"""Two calls in a row: every step between a single token and a chunk."""
OFTEN = ("neighbour", "neighbour")
"""Events that have several forms are in the deck more than once."""
N_SEQS = 4
N_OTHERS = 2
REFUSALS_MAX = 3
"""After so many refused rollbacks a walk does without: each costs the track from its beginning."""


@dataclass
class Led:
    """What an engine gave along a track, in order of time; positions may come again.

    Args:
        logits: [n, n_vocab] parts of the rows.
        pos: of each row.
        after: for each row, the transition that led to the call that computed it.
        calls: lengths of the calls that lead straight to the end; empty on a walk.
        margins: parts of the rows' router margins, for those rows that have one.
        named: parts of the ids that the engine says win.
        stream_of: the row whose residual stream is wanted, -1 for none.
        stream: that, [n_layers + 1, n_embd], if the engine can tell.
    """

    logits: list[Floats] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    margins: list[Floats] = field(default_factory=list)
    named: list[Integers] = field(default_factory=list)
    stream_of: int = -1
    stream: Floats | None = None

    @property
    def router_margin(self) -> Floats | None:
        """Of each row, or None if the engine cannot tell."""
        return np.concatenate(self.margins) if self.margins else None

    def misnamed(self, prompt: int) -> str:
        """In words, the first row that names another id than the first largest of its logits."""
        logits, named = np.concatenate(self.logits), np.concatenate(self.named)
        wrong = (logits.argmax(axis=1) != named) & ~np.isnan(logits).any(axis=1)
        if not wrong.any():
            return ""
        row = int(wrong.argmax())
        return (
            f"prompt {prompt}, position {self.pos[row]}, after {self.after[row]}: the engine names "
            f"the token {named[row]}, the largest of its logits is {logits[row].argmax()}"
        )

    def add(self, rows: Rows, places: Sequence[int], pos: Sequence[int], after: str) -> None:
        """Keeps some rows of a decode: which they are, and of which positions."""
        if not len(places):
            return
        own = self.stream_of - len(self.pos)
        if rows.hidden is not None and 0 <= own < len(places):
            self.stream = rows.hidden[places[own]].astype(np.float64)
        self.logits.append(rows_of(rows)[places])
        self.named.append(rows.argmax[places])
        if rows.router_margin is not None:
            self.margins.append(rows.router_margin[places].astype(np.float64))
        self.pos += pos
        self.after += [after] * len(places)


def cuts(track: Track, n_ubatch: int) -> list[int]:
    """Lengths of the calls: the prompt n_ubatch at a time (0: at once), then token by token."""
    size = n_ubatch or track.n_prompt
    whole, rest = divmod(track.n_prompt, size)
    return [size] * whole + [rest] * bool(rest) + [1] * (len(track.tokens) - track.n_prompt)


def lead(engine: Walked, track: Track, n_ubatch: int) -> Led:
    """Leads an engine straight along a track, in calls as `cuts` says."""
    led = Led(calls=cuts(track, n_ubatch))
    engine.seq_remove(0)
    at = 0
    for length in led.calls:
        rows = decode(engine, [Span(0, at, track.tokens[at : at + length], "all")])
        led.add(rows, range(length), range(at, at + length), engine.stepped[0])
        at += length
    engine.seq_remove(0)
    return led


def mixed(spans: Sequence[Span], rng: np.random.Generator, share: float) -> Batch:
    """A batch of these spans whose tokens lie mixed, each sequence's still in order.

    Args:
        spans: "all" of the first one's rows are wanted.
        rng: draws the order, and which rows of the others are wanted.
        share: of those that are.
    """
    batch = Batch.of(spans)
    turns, order = rng.permutation(batch.seq_id), np.zeros(len(batch), dtype=np.int64)
    for seq_id in np.unique(turns):
        order[turns == seq_id] = np.flatnonzero(batch.seq_id == seq_id)
    others = batch.seq_id != spans[0].seq_id
    wanted = batch.logits | (others & (rng.random(len(batch)) < share))
    return Batch(batch.token[order], batch.pos[order], batch.seq_id[order], wanted[order])


class Walker:
    """Leads an engine along tracks through all its states, with two neighbours at most.

    Neighbours' tokens lie between its own in half of the calls, and some of their rows are wanted
    too; else they come before it or after it. Within pairs of calls only some of its own rows are
    wanted now and then. What happens next is dealt from a deck that holds every event and pairs of
    calls that make every step from one kind of call to another; the deck goes on from track to
    track.

    Args:
        engine: to lead; it needs four sequences.
        rng: shuffles the deck, draws sizes and noise.

    Raises:
        InputError: if the engine has fewer.
    """

    def __init__(self, engine: Walked, rng: np.random.Generator) -> None:
        if engine.description.n_seqs < N_SEQS:
            raise InputError(f"a walk needs n_seqs >= {N_SEQS}, got {engine.description.n_seqs}")
        self.engine, self.rng = engine, rng
        self.n_vocab, self.n_ctx = engine.description.n_vocab, engine.description.n_ctx
        self._deck: list[str | tuple[int, int]] = []
        self._n_refusals = 0
        self._n_walks = 0

    def twin(self) -> Walker:
        """One that will walk as this one is about to; what it walks is not counted."""
        other = copy.copy(self)
        other.engine, other.rng = Walked(self.engine.engine), copy.deepcopy(self.rng)
        other._deck = list(self._deck)
        return other

    def _events(self) -> dict[str, Callable[[], None]]:
        return {
            "refuse two drafts": self._refuse_two,
            "refuse a part": lambda: self._roll_back(int(self.rng.integers(1, 3)), (0, 1, 3)),
            "go back twice": lambda: self._roll_back(2, (0, 1, 3), twice=True),
            "copy": lambda: self._move(copied=True),
            "copy, go back": lambda: self._move(copied=True, back=True),
            "save": lambda: self._move(copied=False),
            "save, go back": lambda: self._move(copied=False, back=True),
            "start again": self._start_again,
            "neighbour": self._change_neighbours,
        }

    def walk(self, track: Track, *, stream_of: int = -1) -> Led:
        """Walks until the track's last token was computed.

        Args:
            track: along what.
            stream_of: the row whose residual stream is wanted too.
        """
        self.track, self.led = track, Led(stream_of=stream_of)
        events = self._events()
        self.seq, self.at = 0, 0
        self.others: dict[int, int] = {}
        self._may_restart = True
        if stream_of >= 0:
            self._spoil()
        self._clear()
        for _ in range((N_OTHERS - self._n_walks) % (N_OTHERS + 1)):
            self._join()
        self._n_walks += 1
        self._forward(self._size())
        while self.at < len(track.tokens):
            if not self._deck:
                self._deck = [*events, *OFTEN, *PAIRS]
                self.rng.shuffle(self._deck)
            card = self._deck.pop()
            if isinstance(card, str):
                events[card]()
                self._forward(self._size())
            else:
                for size in card:
                    self._forward(size, some=bool(self.rng.random() < 0.4))
        self._clear()
        return self.led

    def _size(self) -> int:
        weights = 1 / np.array(WALK_SIZES)
        return int(self.rng.choice(WALK_SIZES, p=weights / weights.sum()))

    def _spoil(self) -> None:
        """Leaves noise in every sequence's memory: what a first walk along the same tokens left
        there would be right.
        """
        rng = np.random.default_rng(0)
        n = min(len(self.track.tokens), self.n_ctx, self.engine.description.n_batch)
        self._clear()
        for seq_id in range(N_SEQS):
            decode(self.engine, [Span(seq_id, 0, rng.integers(0, self.n_vocab, n).tolist())])

    def _clear(self) -> None:
        for seq_id in range(N_SEQS):
            self.engine.seq_remove(seq_id)

    def _forward(self, size: int, *, some: bool = False) -> None:
        """The next tokens of the track, beside whatever neighbours there are; `some` of the rows,
        or all. After an event all are, so that a fault is named after it.
        """
        tokens = self.track.tokens[self.at : self.at + size]
        if not tokens:
            return
        spans = [Span(self.seq, self.at, tokens, "all"), *self._neighbours()]
        if self.rng.random() < 0.5:
            batch = mixed(spans, self.rng, 0.5)
        else:
            batch = Batch.of([spans[at] for at in self.rng.permutation(len(spans))])
        if some and self.at + len(tokens) < len(self.track.tokens):
            batch.logits[:] &= self.rng.random(len(batch)) < 0.5
        rows = self._decode(batch)
        beside = ", beside others" if len(spans) > 1 else ""
        own = batch.seq_id[batch.logits] == self.seq
        pos = batch.pos[batch.logits][own].tolist()
        self.led.add(
            rows, np.flatnonzero(own).tolist(), pos, self.engine.stepped[self.seq] + beside
        )
        self.at += len(tokens)

    def _decode(self, batch: Batch) -> Rows:
        """A decode whose rows are kept: with the residual stream while its row is to come."""
        return decode(self.engine, replace(batch, hidden=len(self.led.pos) <= self.led.stream_of))

    def _neighbours(self) -> list[Span]:
        spans = []
        for seq_id, pos in self.others.items():
            size = self._size()
            if pos + size <= self.n_ctx:
                spans.append(Span(seq_id, pos, self._noise(size), "none"))
                self.others[seq_id] = pos + size
        return spans

    def _noise(self, size: int) -> list[int]:
        tokens: list[int] = self.rng.integers(0, self.n_vocab, size).tolist()
        return tokens

    def _refuse_two(self) -> None:
        """A whole draft is refused, and then the one that is made instead."""
        for _ in range(2):
            self._roll_back(0, (0,))

    def _roll_back(self, n_right: int, backs: Sequence[int], *, twice: bool = False) -> None:
        """A draft of which a part is refused: its tokens must leave no trace.

        Some tokens of the track, then noise, in one call; it goes back to the first noise, or
        further by one of `backs`, into the call before.
        """
        right = self.track.tokens[self.at : self.at + n_right]
        noise = self._noise(int(self.rng.integers(1, 5)))
        too_long = self.at + len(right) + len(noise) > self.n_ctx
        if self.at == 0 or too_long or self._n_refusals >= REFUSALS_MAX:
            return
        rows = self._decode(Batch.of([Span(self.seq, self.at, [*right, *noise], "all")]))
        pos = range(self.at, self.at + len(right))
        self.led.add(rows, range(len(right)), pos, self.engine.stepped[self.seq])
        to = max(1, self.at + len(right) - int(self.rng.choice(backs)))
        if self.engine.seq_remove(self.seq, to):
            self.at = to
            if twice:
                self._go_back_further()
        else:
            self._n_refusals += 1
            self._may_restart = True
            self._start_again()

    def _go_back_further(self) -> None:
        """Some tokens that were right are taken back too, if the engine can."""
        to = self.at - int(self.rng.choice([1, 3, 6]))
        if to >= 1 and self.engine.seq_remove(self.seq, to):
            self.at = to

    def _move(self, *, copied: bool, back: bool = False) -> None:
        """Goes on as another sequence, copied or saved and restored, and perhaps goes back there at
        once; the old one is removed.
        """
        target = self._free()
        self._use(target)
        if copied:
            self.engine.seq_copy(self.seq, target)
        else:
            self.engine.seq_restore(target, self.engine.seq_save(self.seq))
        self.engine.seq_remove(self.seq)
        self.seq = target
        if back:
            self._go_back_further()

    def _use(self, seq: int) -> None:
        """Leaves another sequence's tokens, and its snapshots, where one is about to be put."""
        self.engine.seq_remove(seq)
        for pos in range(min(2, self.n_ctx)):
            decode(self.engine, [Span(seq, pos, self._noise(1), "none")])

    def _start_again(self) -> None:
        """The sequence from its beginning, in the slot that it has used; once a track."""
        if not self._may_restart:
            return
        self._may_restart = False
        self.engine.seq_remove(self.seq)
        self.at = 0

    def _change_neighbours(self) -> None:
        """A neighbour joins, or the last one leaves."""
        if len(self.others) == N_OTHERS or (self.others and self.rng.random() < 0.3):
            self.engine.seq_remove(self.others.popitem()[0])
        else:
            self._join()

    def _join(self) -> None:
        seq_id = self._free()
        self.engine.seq_remove(seq_id)
        self.others[seq_id] = 0

    def _free(self) -> int:
        """A sequence that is neither led nor a neighbour."""
        taken = {self.seq, *self.others}
        return int(self.rng.choice([seq for seq in range(N_SEQS) if seq not in taken]))


def stream(engine: Engine, track: Track, calls: Sequence[int], pos: int) -> Floats | None:
    """The residual stream at a position, computed in these calls: [n_layers + 1, n_embd], or
    None if the engine cannot tell.
    """
    engine.seq_remove(0)
    at, found = 0, None
    for length in calls:
        span = Span(0, at, track.tokens[at : at + length], "all")
        rows = decode(engine, [span], hidden=pos < at + length)
        if pos < at + length:
            found = None if rows.hidden is None else rows.hidden[pos - at].astype(np.float64)
            break
        at += length
    engine.seq_remove(0)
    return found
