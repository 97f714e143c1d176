"""Relations of calls that follow one another: chunks, rollback, fresh states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from hotfire.props.case import Case, Inputs, decoded, draw_inputs
from hotfire.props.compare import check, right_of, same
from hotfire.props.execute import Subject, execute
from hotfire.props.parts import pool_owners, put, take, whole_bytes, whole_numbers
from hotfire.ref.formats import Bytes, Integers
from hotfire.ref.operation import Operand, Operation, Sequences

CHUNKS = (1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)


def chunk_ends(rng: Random, n_tokens: int) -> list[int]:
    """Where chunks end: of one size of `CHUNKS`, with one of 1 or 2 tokens amid and one last."""
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
    """Tokens that were drafted and taken back, by putting the state back, leave no trace."""
    rule = "rollback_leaves_nothing"
    operation = subject.operation
    inputs = draw_inputs(operation, case)
    other = draw_inputs(operation, replace(case, seed=case.seed ^ 1))
    drafted = inputs.stored | {
        each.name: other.stored[each.name]
        for each in operation.inputs
        if not each.format.is_integer
    }
    before = execute(subject, case, inputs.stored, inputs.scalars)
    execute(subject, case, drafted, inputs.scalars)
    after = execute(subject, case, inputs.stored, inputs.scalars)
    for each in operation.outputs:
        same(rule, each, after[each.name], before[each.name], "the run before the draft")
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


def in_chunks(
    subject: Subject, case: Case, inputs: Inputs, ends: Sequence[int]
) -> dict[str, Bytes]:
    """Runs the sequences of a case chunk by chunk, the state carried from call to call."""
    operation = subject.operation
    told = _sequences(operation)
    starts = whole_numbers(inputs.stored[told.starts])
    out = {
        each.name: inputs.stored[each.name].copy()
        if each.updated
        else each.format.poison(each.shape(case.sizes))
        for each in operation.outputs
    }
    first = 0
    for end in ends:
        chunk, stored, rows = _chunk(operation, case, inputs.stored, starts, first, end)
        stored |= {each.name: out[each.name] for each in operation.outputs if each.updated}
        got = execute(subject, chunk, stored, inputs.scalars)
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
    starts: Integers,
    first: int,
    end: int,
) -> tuple[Case, dict[str, Bytes], Integers]:
    """The call on tokens first up to end of each sequence, and which of all tokens those are."""
    told = _sequences(operation)
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
