"""Seconds of each operation on a shape of the 0.8B model, every variant in turn.

    python ci/bench/operations.py [OPERATION ...] [--provider hotfire] [--rounds 20]

Variants take turns on the same operands, so that what slows the machine slows all; printed are the
best times of the rounds, their ratios to the first variant's, and the bytes that a call must move
at least, a second. Operands are drawn as the suites draw them. Any provider of `hotfire props run`
whose library runs in this process will do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import click
import numpy as np

from hotfire import evidence
from hotfire.props.case import Case, draw_inputs
from hotfire.props.provider import Call, Kernel, load
from hotfire.props.strides import told
from hotfire.ref.formats import Bytes
from hotfire.ref.operation import Operation, measure
from hotfire.ref.registry import operations

N_PROMPT, N_EMBD, N_FF = 512, 1024, 3584

ROWS = {"n_rows": N_PROMPT, "n_cols": N_FF}
TOKENS = {"n_tokens": N_PROMPT, "n_embd": N_EMBD}
WEIGHT = {"n_rows": N_FF, "n_cols": N_EMBD}
EXPERTS = {"n_tokens": 64, "n_top_k": 8, "n_experts": 32, "n_rows": 512, "n_cols": N_EMBD}
CACHE = {"n_seqs": 1, "n_kv": 2048, "n_kv_heads": 2, "n_groups": 4, "head_dim": 256, "n_splits": 4}
DELTA = {
    "n_tokens": N_PROMPT, "n_seqs": 1, "n_k_heads": 16, "n_groups": 1, "k_dim": 128, "v_dim": 128,
    "tiled": 1,
}  # fmt: skip
FORMATS = ("f32", "bf16", "q8_0", "q4_0")

SHAPES: Mapping[str, Sequence[Mapping[str, int]]] = {
    **{f"matvec_{each}": [WEIGHT] for each in FORMATS},
    **{f"matmul_{each}": [WEIGHT | {"n_tokens": n} for n in (4, N_PROMPT)] for each in FORMATS},
    **{f"matmul_grouped_{each}": [EXPERTS] for each in FORMATS},
    **{
        f"attention_{each}": [CACHE | {"n_tokens": n} for n in (1, 128)]
        for each in ("f32", "bf16", "q8_0")
    },
    **{
        f"kv_append_{each}": [{"n_tokens": N_PROMPT, "n_kv": 2048, "n_cols": 512}]
        for each in ("f32", "bf16", "q8_0")
    },
    **{f"quantize_{each}": [ROWS] for each in ("q8_0", "q4_0")},
    **{f"dequantize_{each}": [ROWS] for each in ("q8_0", "q4_0")},
    **{each: [TOKENS] for each in ("rms_norm", "rms_norm_plus_one", "rms_norm_gated")},
    **{each: [ROWS] for each in ("silu", "swiglu", "sigmoid_gate", "softmax")},
    "l2_norm": [{"n_rows": 16 * N_PROMPT, "n_cols": 128}],
    "rope_partial": [{"n_tokens": N_PROMPT, "n_heads": 8, "head_dim": 256, "n_rot": 64}],
    "conv1d_causal": [{"n_tokens": N_PROMPT, "n_seqs": 1, "n_channels": 6144, "width": 4}],
    "gated_delta": [DELTA, DELTA | {"n_tokens": 1}],
    "gated_delta_chunked": [DELTA | {"chunk_len": 16}, DELTA | {"chunk_len": 64}],
    "gated_delta_gates": [{"n_tokens": N_PROMPT, "n_heads": 16}],
    "moe_route": [{"n_tokens": N_PROMPT, "n_experts": 256, "n_top_k": 8}],
    "moe_combine": [{"n_tokens": N_PROMPT, "n_top_k": 8, "n_embd": N_EMBD}],
    "argmax": [{"n_rows": 4, "n_cols": 32768}],
}
"""Sizes of the axes that are no gap between rows."""


def case_of(operation: Operation, shape: Mapping[str, int]) -> Case:
    """The case of a shape: rows next to each other."""
    sizes = {axis.name: shape.get(axis.name, 0) for axis in operation.axes}
    operation.check_sizes(sizes)
    scalars = {each.name: each.samples[0] for each in operation.scalars}
    return Case(sizes=sizes, scalars=scalars, seed=1)


def operands(operation: Operation, case: Case) -> dict[str, Bytes]:
    """The bytes of each operand: one sequence that has all tokens, and all rows of the pool."""
    stored = draw_inputs(operation, case).stored
    sequences = operation.sequences
    if sequences:
        fixed = {sequences.starts: [0, case.sizes[sequences.tokens]]}
        fixed |= {sequences.has_state: [1]} if sequences.has_state else {}
        for axis, (begin, length) in sequences.ranges.items():
            fixed |= {begin: [0], length: [case.sizes[axis]]}
        stored |= {name: np.array(each, np.int32).view(np.uint8) for name, each in fixed.items()}
    outputs = (each for each in operation.outputs if each.name not in stored)
    shapes = {each.name: (each.format, each.shape(case.sizes)) for each in outputs}
    return stored | {name: fmt.poison(shape) for name, (fmt, shape) in shapes.items()}


def times(kernels: Sequence[Kernel], call: Call, rounds: int) -> dict[str, float]:
    """Variant -> the best seconds of a call."""
    best = {each.variant: np.inf for each in kernels}
    for each in kernels:
        each.call(call)
    for _ in range(rounds):
        for each in kernels:
            begin = time.perf_counter()
            each.call(call)
            best[each.variant] = min(best[each.variant], time.perf_counter() - begin)
    return best


def measured(
    operation: Operation, kernels: Sequence[Kernel], rounds: int
) -> Iterator[tuple[Mapping[str, int], int, dict[str, float]]]:
    """Of each shape: itself, the bytes of all operands, and the times."""
    for shape in SHAPES[operation.name]:
        case = case_of(operation, shape)
        memory = operands(operation, case)
        n_bytes = sum(each.size for each in memory.values())
        size = measure(operation.workspace, case.sizes) if operation.workspace else 0
        workspace = np.zeros(size + 64, dtype=np.uint8)
        pointers = {name: each.ctypes.data for name, each in memory.items()}
        pointers["workspace"] = -(-workspace.ctypes.data // 64) * 64
        call = Call(pointers, told(operation, case) | {"workspace": size}, case.scalars)
        yield shape, n_bytes, times(kernels, call, rounds)


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(sorted(SHAPES)))
@click.option("--provider", default="hotfire")
@click.option("--rounds", default=20)
def main(names: Sequence[str], provider: str, rounds: int) -> None:
    """One line a shape and variant."""
    offered = [each for each in load(provider).kernels if not each.unavailable]
    print(f"{evidence.machine()}, {provider}")
    print(f"{'operation':20} {'variant':12} {'us':>9} {'ratio':>6} {'GB/s':>6}  shape")
    for name in names or sorted(SHAPES):
        kernels = [each for each in offered if each.operation == name]
        for shape, n_bytes, best in measured(operations()[name], kernels, rounds):
            first = next(iter(best.values()))
            for variant, seconds in best.items():
                sizes = ",".join(f"{axis}={size}" for axis, size in shape.items())
                figures = (
                    f"{seconds * 1e6:9.1f} {first / seconds:6.2f} {n_bytes / seconds / 1e9:6.1f}"
                )
                print(f"{name:20} {variant:12} {figures}  {sizes}", flush=True)


if __name__ == "__main__":
    main()
