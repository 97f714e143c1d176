"""Faults of state that engines had, planted in our kernels, and the property that must name each.

Most of them are wrong values too, so in a hunt by all properties the first to find one is often
agreement with the reference. Here each is hunted by the one statement that says what went wrong.
"""

from __future__ import annotations

from hotfire.props.mutants import Mutant, mutants

STATE_FAULTS = {
    "conv1d_causal_chunk_of_4_forgets": "chunks_are_invisible",
    "conv1d_causal_chunk_of_64_forgets": "chunks_are_invisible",
    "conv1d_causal_chunk_of_512_forgets": "chunks_are_invisible",
    "gated_delta_chunk_of_4_forgets": "chunks_are_invisible",
    "gated_delta_chunk_of_64_forgets": "chunks_are_invisible",
    "gated_delta_chunk_of_512_forgets": "chunks_are_invisible",
    "gated_delta_history_lost": "chunks_are_invisible",
    "gated_delta_final_gate": "chunks_are_invisible",
    "gated_delta_last_token_unsaved": "chunks_are_invisible",
    "gated_delta_chunked_history_lost": "chunks_are_invisible",
    "gated_delta_chunked_final_gate": "chunks_are_invisible",
    "gated_delta_chunked_tail_unsaved": "chunks_are_invisible",
    "gated_delta_chunked_chunk_forgets": "cuts_are_invisible",
    "gated_delta_chunked_stale_state": "fresh_states_are_never_read",
    "gated_delta_chunked_neighbour_state": "neighbours_are_invisible",
    "gated_delta_chunked_state_in_bf16": "keeps_precision",
    "conv1d_causal_history_lost": "chunks_are_invisible",
    "conv1d_causal_short_chunk": "chunks_are_invisible",
    "gated_delta_rollback_ignored": "rollback_leaves_nothing",
    "gated_delta_state_in_bf16": "keeps_precision",
    "gated_delta_stale_state": "fresh_states_are_never_read",
    "conv1d_causal_stale_state": "fresh_states_are_never_read",
    "gated_delta_neighbour_state": "neighbours_are_invisible",
    "conv1d_causal_neighbour_state": "neighbours_are_invisible",
    "attention_f32_empty_split_unwritten": "leftovers_are_never_read",
    "attention_bf16_empty_split_unwritten": "leftovers_are_never_read",
    "attention_q8_0_empty_split_unwritten": "leftovers_are_never_read",
    "attention_f32_begin_lost": "padding_is_invisible",
    "conv1d_causal_neighbour_tokens": "padding_is_invisible",
    "attention_f32_key_dropped_at_14080": "holds_at_length",
    "attention_bf16_key_dropped_at_14080": "holds_at_length",
    "attention_q8_0_key_dropped_at_14080": "holds_at_length",
    "attention_f32_key_dropped_at_split": "cuts_are_invisible",
    "attention_bf16_key_dropped_at_split": "cuts_are_invisible",
    "attention_q8_0_key_dropped_at_split": "cuts_are_invisible",
}


def state_faults() -> list[tuple[Mutant, str]]:
    """Each fault of state, and the property that must name it."""
    known = {mutant.name: mutant for mutant in mutants()}
    return [(known[name], stated) for name, stated in STATE_FAULTS.items()]
