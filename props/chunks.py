"""Relations of calls that follow one another: chunks, rollback, fresh states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random

import numpy as np

from hotfire.props.case import Case, Inputs, decoded, draw_inputs, draw_others
from hotfire.props.compare import check, right_of, same, same_each_time
from hotfire.props.execute import Broken, Subject, execute
from hotfire.props.parts import pool_owners, put, take, whole_bytes, whole_numbers
from hotfire.ref.formats import Bytes, Integers
from hotfire.ref.operation import Operand, Operation, Sequences

CHUNKS = (1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 512)

LANDMARKS = (512, 64, 4)
"""Sizes at whose starts engines were seen to lose a state."""


NMSE_MAX = 1e-7
"""What 512 steps in f32 may leave of a state: 1e-13 as a rule, 1e-9 where a gate's own rounding
adds up in a state of one element. A state kept in bf16 leaves 1e-4.
"""

PRECISION_CHUNK = 16
"""Tokens of a call where precision is at stake: what each call loses adds up."""


def chunk_ends(rng: Random, n_tokens: int) -> list[int]:
    """Where chunks end. Either all are of one size of `CHUNKS`, but one of 1 or 2 tokens amid and
    one last; or each is of another size, in any order, with those of `LANDMARKS` that fit.
    """
    if rng.random() < 0.5:
        return _of_many_sizes(rng, n_tokens)
    size = rng.choice([each for each in CHUNKS if each <= max(1, n_tokens)])
    short = rng.randint(1, 2)
    ends: list[int] = []
    at = 0
    amid = rng.randrange(max(1, n_tokens // size))
    while at < n_tokens:
        at += short if len(ends) == amid else size
        ends.append(min(at, n_tokens))
    last = n_tokens - rng.randint(1, 2)
    return sorted({*ends, last} - {0}) if last > 0 else ends


def _of_many_sizes(rng: Random, n_tokens: int) -> list[int]:
    sizes: list[int] = []
    for size in LANDMARKS:
        if size <= n_tokens - sum(sizes):
            sizes.append(size)
    while sum(sizes) < n_tokens:
        left = n_tokens - sum(sizes)
        sizes.append(rng.choice([each for each in CHUNKS if each <= left]))
    rng.shuffle(sizes)
    return list(accumulate(sizes))


def chunks_are_invisible(subject: Subject, case: Case) -> bool:
    """The tokens in several calls, one after another, give the outputs and the final state of one
    call: to the bit where the kernel promises it, else within the bound.

    What later tokens wrote to a pool is poisoned while earlier ones are computed.
    """
    rule = "chunks_are_invisible"
    operation = subject.operation
    inputs = draw_inputs(operation, case)
    told = _sequences(operation)
    longest = int(np.diff(whole_numbers(inputs.stored[told.starts])).max(initial=0))
    ends = chunk_ends(Random(case.seed), longest)  # noqa: S311 - a draw, not a secret
    got = in_chunks(subject, case, inputs, ends)
    at_once = execute(subject, case, inputs.stored, inputs.scalars)
    if subject.kernel.batch_invariant:
        for each in operation.outputs:
            same(rule, each, got[each.name], at_once[each.name], f"one call; chunks end at {ends}")
    return check(rule, subject, got, right_of(subject, inputs, case), before=inputs.stored)


def rollback_leaves_nothing(subject: Subject, case: Case) -> bool:
    """Tokens that were drafted and taken back leave no trace: after a history, a draft in one call
    or two on a copy of the state, and then the tokens that come instead, all is as if there had
    been no draft.
    """
    rule = "rollback_leaves_nothing"
    operation = subject.operation
    inputs = draw_inputs(operation, case)
    told = _sequences(operation)
    rng = Random(case.seed)  # noqa: S311 - a draw, not a secret
    longest = int(np.diff(whole_numbers(inputs.stored[told.starts])).max(initial=0))
    history = rng.randint(0, longest)
    step = min(history + rng.randint(0, 1), longest)  # one token alone, or at once all that follow
    ends = sorted({history, step, longest} - {0})
    taken_back = sorted({history + rng.randint(0, longest - history) for _ in range(2)})
    other = draw_others(operation, case)
    drafted = inputs.stored | {
        each.name: other.stored[each.name]
        for each in operation.inputs
        if not each.format.is_integer
    }

    def draft(at: int, states: dict[str, Bytes]) -> None:
        for end in taken_back if at == history else ():
            chunk, stored, _ = _chunk(operation, case, drafted, at, end)
            got = execute(subject, chunk, stored | states, inputs.scalars)
            states = {name: got[name] for name in states}
            at = end

    after = same_each_time(
        rule,
        subject,
        lambda: in_chunks(subject, case, inputs, ends, before=draft),
        lambda: in_chunks(subject, case, inputs, ends),
        f"a run without the draft of tokens {history} up to {taken_back[-1]}",
    )
    return check(rule, subject, after, right_of(subject, inputs, case), before=inputs.stored)


def fresh_states_are_never_read(subject: Subject, case: Case) -> bool:
    """A sequence that begins takes its state for zeros, whatever a freed slot still holds."""
    rule = "fresh_states_are_never_read"
    operation = subject.operation
    told = _sequences(operation)
    inputs = draw_inputs(operation, case)
    flags = whole_bytes(np.zeros(case.sizes[told.seqs]))
    lengths = np.diff(whole_numbers(inputs.stored[told.starts]))
    fresh = inputs.stored | {told.has_state: flags}
    zeroed = dict(fresh)
    for each in _states(operation, told):
        idle = np.flatnonzero(lengths == 0)
        poison = each.format.poison(each.shape(case.sizes))
        put(each, told.seqs, case, poison, idle, _at(each, told, case, inputs.stored, idle))
        fresh[each.name] = poison
        zeros = each.format.encode(np.zeros(each.shape(case.sizes)))
        put(each, told.seqs, case, zeros, idle, _at(each, told, case, inputs.stored, idle))
        zeroed[each.name] = zeros
    got = execute(subject, case, fresh, inputs.scalars)
    logical = decoded(operation, zeroed, case.sizes)
    right = right_of(subject, replace(inputs, stored=zeroed, logical=logical), case)
    return check(rule, subject, got, right, before=zeroed)


def keeps_precision(subject: Subject, case: Case) -> bool:
    """A carried state is as precise as f32 after many calls with slow gates: its squared error is
    far below what a narrower format of the state would leave.
    """
    rule = "keeps_precision"
    inputs = draw_inputs(subject.operation, case)
    right = right_of(subject, inputs, case)
    longest = int(np.diff(whole_numbers(inputs.stored[_sequences(subject.operation).starts])).max())
    ends = [*range(PRECISION_CHUNK, longest, PRECISION_CHUNK), longest]
    got = in_chunks(subject, case, inputs, ends)
    for operand in subject.operation.outputs:
        want = right.want[operand.name]
        if operand.format.is_lossy or not want.any():
            continue
        error = operand.format.decode(got[operand.name], want.shape) - want
        nmse = float((error * error).sum() / (want * want).sum())
        if not nmse <= NMSE_MAX:
            raise Broken(
                rule,
                f"{operand.name} has a squared error of {nmse:.2g} of its square; "
                f"f32 leaves less than {NMSE_MAX:.0e}",
            )
    return check(rule, subject, got, right)


def in_chunks(
    subject: Subject,
    case: Case,
    inputs: Inputs,
    ends: Sequence[int],
    before: Callable[[int, dict[str, Bytes]], None] = lambda _first, _states: None,
) -> dict[str, Bytes]:
    """Runs the sequences of a case chunk by chunk, the state carried from call to call.

    Args:
        subject, case, inputs: what runs on what.
        ends: where chunks end, in tokens of a sequence.
        before: called with each chunk's first token and a copy of the states, before its call.
    """
    operation = subject.operation
    told = _sequences(operation)
    out = {
        each.name: inputs.stored[each.name].copy()
        if each.updated
        else each.format.poison(each.shape(case.sizes))
        for each in operation.outputs
    }
    first = 0
    for end in ends:
        states = {each.name: out[each.name] for each in operation.outputs if each.updated}
        before(first, dict(states))
        chunk, stored, rows = _chunk(operation, case, inputs.stored, first, end)
        got = execute(subject, chunk, stored | states, inputs.scalars)
        for each in operation.outputs:
            if told.tokens in each.axes:
                put(each, told.tokens, case, out[each.name], rows, got[each.name])
            else:
                out[each.name] = got[each.name]
        first = end
    return out


def _chunk(
    operation: Operation,
    case: Case,
    stored: dict[str, Bytes],
    first: int,
    end: int,
) -> tuple[Case, dict[str, Bytes], Integers]:
    """The call on tokens first up to end of each sequence, and which of all tokens those are."""
    told = _sequences(operation)
    starts = whole_numbers(stored[told.starts])
    lengths = np.diff(starts)
    begin, stop = np.minimum(first, lengths), np.minimum(end, lengths)
    spans = [np.arange(s + a, s + b) for s, a, b in zip(starts[:-1], begin, stop, strict=True)]
    rows = np.concatenate(spans).astype(np.int64)
    chunk = replace(case, sizes={**case.sizes, told.tokens: len(rows)}, in_place=False)
    some = {
        each.name: take(each, told.tokens, case, stored[each.name], rows)
        if told.tokens in each.axes
        else stored[each.name]
        for each in operation.inputs
    }
    some[told.starts] = whole_bytes(np.concatenate([[0], np.cumsum(stop - begin)]))
    if told.has_state:
        some[told.has_state] = whole_bytes(
            (whole_numbers(stored[told.has_state]) != 0) | (begin > 0)
        )
    for axis, (at, length) in told.ranges.items():
        some[length] = whole_bytes(whole_numbers(stored[length]) - (lengths - stop))
        nobodys = np.flatnonzero(pool_owners(some[at], some[length], case.sizes[axis]) < 0)
        _poison_rows(operation, axis, case, some, nobodys)
    return chunk, some, rows


def _poison_rows(
    operation: Operation, axis: str, case: Case, stored: dict[str, Bytes], rows: Integers
) -> None:
    for each in operation.inputs:
        if axis in each.axes and not each.format.is_integer:
            out = stored[each.name].copy()
            shape = (len(rows), *each.shape(case.sizes)[1:])
            put(each, axis, case, out, rows, each.format.poison(shape))
            stored[each.name] = out


def _sequences(operation: Operation) -> Sequences:
    assert operation.sequences is not None
    return operation.sequences


def _states(operation: Operation, told: Sequences) -> list[Operand]:
    return [each for each in operation.outputs if each.updated and told.seqs in each.axes]


def _at(
    operand: Operand, told: Sequences, case: Case, stored: dict[str, Bytes], rows: Integers
) -> Bytes:
    return take(operand, told.seqs, case, stored[operand.name], rows)
