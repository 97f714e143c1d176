"""Training text as token ids: conversations of nano's language, cut to one length."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hotfire.ref.models import language

PIECE = re.compile(r"[^\r\n\w]?[^\W\d_]+|\d| ?[^\s\w]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
"""The family's cut, for the language's own text: `re` has no \\p{L}."""
START, END, DONE = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
RAW_EVERY = 5
"""Every so many conversations, one is without the chat's marks."""
OTHER_WEIGHT = 0.2
"""Weight in the loss of a token that is no answer's."""


class Encoder:
    """Text to ids, quickly: the ids of each piece are kept.

    Args:
        folder: of the tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._inner = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._known: dict[str, list[int]] = {}
        self.special = {mark: self._inner.token_to_id(mark) for mark in (START, END, DONE)}

    def __call__(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in PIECE.findall(text):
            known = self._known.get(piece)
            if known is None:
                known = self._known[piece] = self._inner.encode(piece).ids
            ids += known
        return ids


@dataclass
class Row:
    """A conversation as ids, and where its answers are.

    Args:
        ids: of all tokens.
        spans: the kind of a question, and where its answer begins and ends.
    """

    ids: list[int] = field(default_factory=list)
    spans: list[tuple[str, int, int]] = field(default_factory=list)


def row(encoder: Encoder, seed: str, length: int) -> Row:
    """A conversation of exactly one length; every fifth is without the chat's marks."""
    made, stream = Row(), language.turns(seed)
    start, end = encoder.special[START], encoder.special[END]
    raw = int(seed.rsplit("/", 1)[-1]) % RAW_EVERY == 0
    while len(made.ids) < length:
        turn = next(stream)
        if raw:
            made.ids += encoder(turn.said)
            answer, after = encoder(f" {turn.answer}\n"), []
        else:
            made.ids += [start, *encoder(f"user\n{turn.said}"), end, *encoder("\n")]
            made.ids += [start, *encoder("assistant\n")]
            answer, after = [*encoder(turn.answer), end], encoder("\n")
        at = len(made.ids)
        made.ids += [*answer, *after]
        made.spans.append((turn.kind, at, at + len(answer)))
    made.ids = made.ids[:length]
    made.spans = [(kind, first, min(last, length)) for kind, first, last in made.spans]
    return made


_ENCODERS: dict[Path, Encoder] = {}


def rows(folder: Path, seed: str, n_rows: int, length: int) -> list[Row]:
    """The conversations seed/0, seed/1, ..."""
    if folder not in _ENCODERS:
        _ENCODERS[folder] = Encoder(folder)
    return [row(_ENCODERS[folder], f"{seed}/{index}", length) for index in range(n_rows)]


def batch(asked: tuple[Path, str, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """`rows` as [n_rows, length] ids and weights in the loss."""
    made = rows(*asked)
    ids = np.array([each.ids for each in made], dtype=np.int64)
    weight = np.full(ids.shape, OTHER_WEIGHT, dtype=np.float32)
    for each, own in zip(made, weight, strict=True):
        for _, first, last in each.spans:
            own[first:last] = 1.0
    return ids, weight
