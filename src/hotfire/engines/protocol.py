"""What every engine does, and the words for it.

An engine holds sequences, each a growing list of tokens under a number, its `seq_id`. One call,
`decode`, appends tokens of any sequences and gives rows of logits; it does all of a batch or
nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from hotfire.errors import InputError

Integers = NDArray[np.int64]
Wanted = Literal["all", "last", "none"]


class Status(IntEnum):
    """How a `decode` ended."""

    OK = 0
    CONTEXT_FULL = 1
    """A sequence would have grown beyond n_ctx; nothing of the batch was done."""


@dataclass(frozen=True)
class Span:
    """Tokens of one sequence in a batch.

    Args:
        seq_id: which sequence.
        pos: position of the first token: how many the sequence has already.
        tokens: ids, at least one.
        logits: which of them give a row.
    """

    seq_id: int
    pos: int
    tokens: Sequence[int]
    logits: Wanted = "last"


@dataclass(frozen=True)
class Batch:
    """Tokens to append, as in `llama_batch`: one entry a token, [n_tokens] each.

    Args:
        token: ids.
        pos: of each in its sequence.
        seq_id: of each.
        logits: whether a row is wanted for it.
        argmax_only: whether the rows need only say the largest logit's id.
        hidden: whether the residual stream is wanted too, from engines that can tell.
    """

    token: Integers
    pos: Integers
    seq_id: Integers
    logits: NDArray[np.bool_]
    argmax_only: bool = False
    hidden: bool = False

    @classmethod
    def of(cls, spans: Iterable[Span], *, argmax_only: bool = False, hidden: bool = False) -> Batch:
        """The batch of these spans, one after another."""
        token, pos, seq_id, logits = list[int](), list[int](), list[int](), list[bool]()
        for span in spans:
            n = len(span.tokens)
            token += map(int, span.tokens)
            pos += range(span.pos, span.pos + n)
            seq_id += [span.seq_id] * n
            last = span.logits == "last" and n > 0
            logits += [span.logits == "all"] * (n - last) + [True] * last
        return cls(
            np.array(token, dtype=np.int64),
            np.array(pos, dtype=np.int64),
            np.array(seq_id, dtype=np.int64),
            np.array(logits, dtype=np.bool_),
            argmax_only,
            hidden,
        )

    def __len__(self) -> int:
        return len(self.token)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a `decode` gives: one row for each token whose `logits` was set, in batch order.

    Args:
        status: OK, or why nothing was done.
        full: sequences without room, if that is why.
        logits: [n_rows, n_vocab], or None if only the argmax was wanted.
        argmax: [n_rows]; of equal logits the lower id.
        hidden: [n_rows, n_layers + 1, n_embd], embeddings first, or None.
        router_margin: [n_rows] the least distance, over layers and relative to the RMS of the
            router's logits, between the last expert chosen and the first one not; or None.
    """

    status: Status = Status.OK
    full: tuple[int, ...] = ()
    logits: NDArray[Any] | None = None
    argmax: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    hidden: NDArray[Any] | None = None
    router_margin: NDArray[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Description:
    """What an engine is and how far it goes.

    Args:
        name: the target, as it can be opened again.
        n_vocab: ids are 0 to n_vocab - 1.
        n_ctx: tokens that one sequence may have.
        n_seqs: sequence ids are 0 to n_seqs - 1.
        n_batch: tokens of one decode.
        n_layers, n_embd, longest_sum: of the model, for error bounds; 0 where there is none.
        layer_kinds: a word for each layer's mixer.
        model: what its results depend on besides weights, by name; engines of one model agree in
            all that both have.
        unit_sum: unit roundoff of its sums: 2^-24 for f32; 0 where results are exact.
        unit_stored: unit roundoff of what passes between its operations.
        scope: hashes, versions and modes, for a verdict's scope.
    """

    name: str
    n_vocab: int
    n_ctx: int
    n_seqs: int
    n_batch: int
    n_layers: int = 0
    n_embd: int = 0
    longest_sum: int = 0
    layer_kinds: tuple[str, ...] = ()
    model: Mapping[str, object] = field(default_factory=dict)
    unit_sum: float = 0.0
    unit_stored: float = 0.0
    scope: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """What runs a model. An engine is a context manager; after `close` nothing else is allowed."""

    @property
    def description(self) -> Description:
        """What it is."""

    def decode(self, batch: Batch) -> Rows:
        """Appends tokens and gives the rows that were asked for.

        Each sequence's tokens are in order and continue it; sequences may be mixed in any way. If
        one of them lacks room, the status says so and nothing was done, to no sequence.

        Raises:
            InputError: if the batch is empty or too long, an id is out of range, or a position
                does not continue its sequence; nothing was done.
        """

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        """Forgets a sequence's tokens from `pos` on, as if they had never been.

        Returns:
            Whether it was done; False if the engine cannot go back that far, and then nothing
            has changed. Position 0 can always be done.
        """

    def seq_copy(self, source: int, target: int) -> None:
        """Makes `target`, whatever it was, what `source` is; they then go on apart."""

    def seq_save(self, seq_id: int) -> bytes:
        """A sequence's whole state, for an engine of the same model."""

    def seq_restore(self, seq_id: int, saved: bytes) -> None:
        """Makes a sequence, whatever it was, what was saved.

        Raises:
            InputError: if these bytes are no state of this model, or longer than n_ctx.
        """

    def counters(self) -> Mapping[str, int]:
        """Counts since it was opened; `transition A to B` counts changes of its own modes."""

    def close(self) -> None:
        """Gives everything back; closing twice is allowed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


_COLUMNS = {
    **dict.fromkeys(("token", "pos", "seq_id"), ("integers", "iu")),
    "logits": ("bool", "b"),
}
"""Of a batch: what their values are, and numpy's letters for it."""


def check_batch(
    batch: Batch, description: Description, n_past: Mapping[int, int]
) -> dict[int, NDArray[np.intp]]:
    """Refuses a batch that no engine could run.

    Args:
        batch: what was asked.
        description: of the engine.
        n_past: tokens that each sequence has; those not named have none.

    Returns:
        seq_id -> where its tokens are in the batch, in the order of first appearance.

    Raises:
        InputError: naming the first thing that is wrong.
    """
    n = np.size(batch.token)
    for name, (kind, letters) in _COLUMNS.items():
        given = getattr(batch, name)
        if not isinstance(given, np.ndarray) or given.shape != (n,):
            raise InputError(
                f"batch.{name} has shape {list(np.shape(given))}; expected an array, as long as "
                f"token, which has shape {list(np.shape(batch.token))}"
            )
        if given.dtype.kind not in letters:
            raise InputError(f"batch.{name} is of {given.dtype}; expected {kind}")
    if not 1 <= len(batch) <= description.n_batch:
        raise InputError(f"a batch of {len(batch)} tokens; expected 1 to {description.n_batch}")
    for name, values, most in (
        ("token", batch.token, description.n_vocab),
        ("seq_id", batch.seq_id, description.n_seqs),
    ):
        wrong = values[(values < 0) | (values >= most)]
        if len(wrong):
            raise InputError(f"{name} {wrong[0]}; expected 0 to {most - 1}")
    places: dict[int, NDArray[np.intp]] = {}
    for seq_id in dict.fromkeys(batch.seq_id.tolist()):
        where = np.flatnonzero(batch.seq_id == seq_id)
        want = n_past.get(seq_id, 0) + np.arange(len(where))
        wrong = np.flatnonzero(batch.pos[where] != want)
        if len(wrong):
            raise InputError(
                f"sequence {seq_id}: position {batch.pos[where][wrong[0]]}; expected "
                f"{want[wrong[0]]}, as it has {n_past.get(seq_id, 0)} tokens"
            )
        places[seq_id] = where
    return places
