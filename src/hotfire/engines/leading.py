"""Ways to lead an engine along a track: cut in chunks, or on a walk through its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hotfire.engines.compare import Floats
from hotfire.engines.protocol import Engine, Rows, Span
from hotfire.engines.tracks import Track, decode, rows_of
from hotfire.engines.walked import Walked
from hotfire.errors import InputError

WALK_SIZES = (1, 2, 3, 4, 5, 7, 15, 16, 17, 33)
"""Tokens of a call on a walk: around widths at which some engine changes its path."""
PAIRS = ((1, 1), (1, 5), (16, 1), (3, 17))
"""Two calls in a row: every step between a single token and a chunk."""
OFTEN = ("roll back", "roll back", "neighbour")
"""Events that have several forms are in the deck more than once."""
N_SEQS = 3
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
    """

    logits: list[Floats] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    margins: list[Floats] = field(default_factory=list)

    @property
    def router_margin(self) -> Floats | None:
        """Of each row, or None if the engine cannot tell."""
        return np.concatenate(self.margins) if self.margins else None

    def add(self, rows: Rows, pos: int, n_tokens: int, after: str) -> None:
        """Keeps the first n_tokens rows of a decode."""
        self.logits.append(rows_of(rows)[:n_tokens])
        if rows.router_margin is not None:
            self.margins.append(rows.router_margin[:n_tokens].astype(np.float64))
        self.pos += range(pos, pos + n_tokens)
        self.after += [after] * n_tokens


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
        led.add(rows, at, length, engine.stepped[0])
        at += length
    engine.seq_remove(0)
    return led


class Walker:
    """Leads an engine along tracks through all its states, with two neighbours at most.

    What happens next is dealt from a deck that holds every event and pairs of calls that make every
    step from one kind of call to another; the deck goes on from track to track.

    Args:
        engine: to lead; it needs three sequences.
        rng: shuffles the deck, draws sizes and noise.

    Raises:
        InputError: if the engine has fewer.
    """

    def __init__(self, engine: Walked, rng: np.random.Generator) -> None:
        if engine.description.n_seqs < N_SEQS:
            raise InputError(f"a walk needs n_seqs >= {N_SEQS}, got {engine.description.n_seqs}")
        self.engine, self.rng = engine, rng
        self.n_vocab, self.n_ctx = engine.description.n_vocab, engine.description.n_ctx
        self._events = {
            "roll back": self._roll_back,
            "copy": lambda: self._move(copied=True),
            "save": lambda: self._move(copied=False),
            "start again": self._start_again,
            "neighbour": self._change_neighbours,
        }
        self._deck: list[str | tuple[int, int]] = []
        self._n_refusals = 0

    def walk(self, track: Track) -> Led:
        """Walks until the track's last token was computed."""
        self.track, self.led = track, Led()
        self.seq, self.at = 0, 0
        self.others: dict[int, int] = {}
        self._may_restart = True
        self._clear()
        self._forward(int(self.rng.choice(WALK_SIZES)))
        while self.at < len(track.tokens):
            if not self._deck:
                self._deck = [*self._events, *OFTEN, *PAIRS]
                self.rng.shuffle(self._deck)
            card = self._deck.pop()
            if isinstance(card, str):
                self._events[card]()
                self._forward(int(self.rng.choice(WALK_SIZES)))
            else:
                for size in card:
                    self._forward(size)
        self._clear()
        return self.led

    def _clear(self) -> None:
        for seq_id in range(N_SEQS):
            self.engine.seq_remove(seq_id)

    def _forward(self, size: int) -> None:
        """The next tokens of the track, beside whatever neighbours there are."""
        tokens = self.track.tokens[self.at : self.at + size]
        if not tokens:
            return
        spans = [Span(self.seq, self.at, tokens, "all"), *self._neighbours()]
        rows = decode(self.engine, spans)
        beside = ", beside others" if len(spans) > 1 else ""
        self.led.add(rows, self.at, len(tokens), self.engine.stepped[self.seq] + beside)
        self.at += len(tokens)

    def _neighbours(self) -> list[Span]:
        spans = []
        for seq_id, pos in self.others.items():
            size = int(self.rng.choice(WALK_SIZES))
            if pos + size <= self.n_ctx:
                spans.append(Span(seq_id, pos, self._noise(size), "none"))
                self.others[seq_id] = pos + size
        return spans

    def _noise(self, size: int) -> list[int]:
        tokens: list[int] = self.rng.integers(0, self.n_vocab, size).tolist()
        return tokens

    def _roll_back(self) -> None:
        """A draft of which a part is refused: its tokens must leave no trace.

        Up to two tokens of the track, then noise, in one call; it goes back to the first noise, or
        up to three tokens further, into the call before.
        """
        right = self.track.tokens[self.at : self.at + int(self.rng.integers(0, 3))]
        noise = self._noise(int(self.rng.integers(1, 5)))
        if self._n_refusals >= REFUSALS_MAX or self.at + len(right) + len(noise) > self.n_ctx:
            return
        rows = decode(self.engine, [Span(self.seq, self.at, [*right, *noise], "all")])
        self.led.add(rows, self.at, len(right), self.engine.stepped[self.seq])
        back = int(self.rng.choice([0, 0, 1, 3]))
        to = max(1, self.at + len(right) - back)
        if self.engine.seq_remove(self.seq, to):
            self.at = to
        else:
            self._n_refusals += 1
            self._may_restart = True
            self._start_again()

    def _move(self, *, copied: bool) -> None:
        """Goes on as another sequence, copied or saved and restored; the old one is removed."""
        target = next(seq for seq in range(N_SEQS) if seq != self.seq and seq not in self.others)
        if copied:
            self.engine.seq_copy(self.seq, target)
        else:
            self.engine.seq_restore(target, self.engine.seq_save(self.seq))
        self.engine.seq_remove(self.seq)
        self.seq = target

    def _start_again(self) -> None:
        """The sequence from its beginning, in the slot that it has used; once a track."""
        if not self._may_restart:
            return
        self._may_restart = False
        self.engine.seq_remove(self.seq)
        self.at = 0

    def _change_neighbours(self) -> None:
        """A neighbour joins, or the one that is there leaves."""
        if self.others:
            self.engine.seq_remove(self.others.popitem()[0])
        else:
            seq_id = next(seq for seq in range(N_SEQS) if seq != self.seq)
            self.engine.seq_remove(seq_id)
            self.others[seq_id] = 0


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
