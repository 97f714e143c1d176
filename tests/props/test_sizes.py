"""Faults at sizes that a small search walks past: each is found at the quick profile.

The adapter computes by the reference, so that any operation can be broken in a line.
"""

import numpy as np
import pytest

from hotfire.props.case import draw_inputs
from hotfire.props.execute import Subject
from hotfire.props.properties import PROPERTIES, property_named
from hotfire.props.runner import Runner
from hotfire.props.search import PROFILES, search
from hotfire.ref.ops.attention import LANDMARKS
from hotfire.ref.registry import operation, operations

ADAPTER = """
import ctypes
import numpy as np
from hotfire.props.provider import Kernel, Provider
from hotfire.ref.operation import evaluate
from hotfire.ref.registry import operations


def caller(op):
    def call(call):
        def memory(operand):
            n_bytes = operand.format.n_bytes(operand.shape(call.sizes))
            raw = (ctypes.c_uint8 * n_bytes).from_address(call.pointers[operand.name])
            return np.frombuffer(raw, np.uint8)

        values = {
            each.name: each.format.decode(memory(each).copy(), each.shape(call.sizes))
            for each in op.drawn
        }
        if not any(np.prod(each.shape(call.sizes)) for each in op.outputs):
            return
        got = evaluate(op.reference, values, call.scalars, call.sizes)
        n = call.sizes
        {fault}
        for each in op.outputs:
            memory(each)[:] = each.format.encode(got[each.name])

    return call


def provide(argument):
    kernels = [
        Kernel(operation=op.name, variant="reference", call=caller(op))
        for op in operations().values()
    ]
    return Provider(name=__file__, version="1", kernels=kernels)
"""

LONG = "holds_at_length"

LENGTH = "np.diff(values['seq_start'])"
"""Of each sequence, in tokens."""

FAULTS = {
    "second_tile_of_128_rows_and_tokens": ("matmul_f32", "got['y'][128:, 128:] = 0"),
    "rows_past_256": ("matvec_f32", "got['y'][256:] = 0"),
    "columns_past_4096": (
        "matmul_f32",
        "got['y'] = values['x'][:, :4096] @ values['weight'][:, :4096].T",
    ),
    "width_of_one_model": ("rms_norm", "got['y'] *= 0.999 if n['n_embd'] == 5120 else 1"),
    "rows_past_128": ("rms_norm_gated", "got['y'][128:] = 0"),
    "experts_past_256": ("matmul_grouped_f32", "got['y'][values['expert_ids'] >= 256] = 0"),
    "experts_of_a_route_past_512": (
        "moe_route",
        "got = op.reference(values['logits'][:, :512], n['n_top_k']) if n['n_experts'] > 512 and "
        "n['n_top_k'] <= 512 else got",
    ),
    "ten_experts": ("moe_combine", "got['y'] *= 0.99 if n['n_top_k'] == 10 else 1"),
    "index_of_16_bits": ("argmax", "got['y'] = got['y'] % 65536"),
    "columns_of_a_softmax_past_8192": ("softmax", "got['y'][:, 8192:] = 0"),
    "elements_past_65536": ("silu", "got['y'].reshape(-1)[65536:] = 0"),
    "heads_past_64": ("rope_partial", "got['y'][:, 64:] = values['x'][:, 64:]"),
    "a_quarter_of_256_turns": (
        "rope_partial",
        "got['y'] *= 0.999 if (n['head_dim'], n['n_rot']) == (256, 64) else 1",
    ),
    "channels_past_4096": ("conv1d_causal", "got['y'][:, 4096:] = 0"),
    "sequences_past_64": ("conv1d_causal", "got['state'][64:] = values['state'][64:]"),
    "blocks_past_64": ("quantize_q8_0", "got['y'][:, 2048:] = 0"),
    "rows_of_a_cache_past_4096": (
        "kv_append_f32",
        "got['cache'][4096:] = values['cache'][4096:]",
    ),
    "tokens_past_64": (
        "kv_append_q8_0",
        "got = op.reference(values['x'][:64], values['slot'][:64], values['cache'])",
    ),
    "heads_of_gates_past_64": ("gated_delta_gates", "got['gate'][:, 64:] = 0"),
    "tail_of_two_in_chunks_of_32": (
        "gated_delta",
        f"got['state'][({LENGTH} % 32 == 2) & ({LENGTH} > 64)] *= 0.999",
    ),
    "queries_past_128": ("attention_f32", "got['y'][128:] = 0"),
    "head_of_96": ("attention_bf16", "got['y'] *= 0.99 if n['head_dim'] == 96 else 1"),
    "length_of_1025_in_a_batch": (
        "attention_f32",
        "got['y'] *= 0.99 if n['n_seqs'] > 2 and 1025 in values['kv_len'] else 1",
    ),
    "length_of_4097": ("attention_q8_0", "got['y'] *= 0.99 if 4097 in values['kv_len'] else 1"),
    "splits_past_64": ("attention_f32", "got['y'] *= 0.99 if n['n_splits'] > 64 else 1"),
    "zeros_of_either_sign": (
        "argmax",
        "got['y'] = np.where(got['y'] * 0 + (values['x'].max(axis=1) == 0), "
        "np.argmax(values['x'] - (np.signbit(values['x']) * 1e-9), axis=1), got['y'])",
    ),
    "first_tile_masked": (
        "softmax",
        "got['y'][np.isneginf(values['x'][:, :64]).all(axis=1)] = np.nan",
    ),
    "subnormals_flushed": (
        "kv_append_f32",
        "got['cache'][np.abs(got['cache']) < 2.0**-126] = 0",
    ),
}


SLOW = ("attention", "gated_delta")
"""Operations of which only the long sizes are searched here: the others take the time."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_its_size_is_found(tmp_path, name):
    """By some property, at the quick profile."""
    op, fault = FAULTS[name]
    path = tmp_path / "adapter.py"
    path.write_text(ADAPTER.replace("{fault}", fault))
    with Runner(str(path)) as runner:
        kernel = next(each for each in runner.kernels if each.operation == op)
        subject = Subject(runner, kernel, operation(op))
        stated = [each for each in PROPERTIES if each.applies(subject)]
        if op.startswith(SLOW) and "gates" not in op:
            stated = [each for each in stated if each.name in ("exact_on_designed_inputs", LONG)]
        searches = (
            search(subject, each, PROFILES["quick"], 0, make_small=False) for each in stated
        )
        assert any(found.broken for found in searches)


def test_sequences_have_every_length_at_which_engines_dropped_keys():
    """In the first cases of a search, whatever its seed."""
    with Runner("hotfire") as runner:
        kernel = next(each for each in runner.kernels if each.operation == "attention_f32")
        subject = Subject(runner, kernel, operation("attention_f32"))
        lengths = set()
        for case in property_named(LONG).first(subject):
            stored = draw_inputs(subject.operation, case).stored
            lengths |= set(stored["kv_len"].view(np.int32).tolist())
    assert set(LANDMARKS[-21:]) <= lengths


def test_every_axis_of_the_catalogue_reaches_past_a_tile():
    """Of 128; but for widths of a head, numbers of heads, and what only cuts or chooses."""
    small = {"n_rot", "tiled", "width", "n_groups", "n_kv_heads", "head_dim", "n_top_k"}
    small |= {"k_dim", "v_dim", "n_k_heads"}
    short = [
        (op.name, axis.name)
        for op in operations().values()
        for axis in op.axes
        if not axis.gap and not axis.cut and axis.name not in small
        if max(*axis.edges, *axis.long, 0) <= 128
    ]
    # States of this operation are large: its sequences are few.
    assert set(short) <= {("gated_delta", "n_seqs"), ("gated_delta_chunked", "n_seqs")}
