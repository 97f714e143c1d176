"""What each kernel takes of a pass over the 0.8B shape, beside libllama's whole pass.

    python ci/bench/kernels.py --lib FOLDER [--dtype q4_0 ...] [--threads 2] [--depth 512]

A pass is every kernel call of 24 layers and the head (hidden 1024, ff 3584, vocab 32768), each
matrix in memory of its own: 512 tokens of a prompt, or one token at a depth. libllama's pass over a
probe of the same shape takes turns with it, so that what slows the machine slows both. Printed are
the best times of the rounds, and the median of the rounds' ratios; a row's share is of the kernels'
own time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from engines import DTYPES, SHAPE, feed

from hotfire import evidence, lib
from hotfire.engines import Engine, open_engine
from hotfire.ref.formats import named
from hotfire.ref.models import gguf_file, probe

N_PROMPT = 512
N_ROT, CONV_WIDTH, INTERVAL = 64, 4, 4


@dataclass
class Step:
    """One kernel call of a pass.

    Args:
        what: the kernel, or its matrix.
        call: runs it.
        n_bytes: that it reads or writes at least.
        n_flops: of its products.
    """

    what: str
    call: Callable[[], None]
    n_bytes: float
    n_flops: float


class Pass:
    """The kernel calls for n tokens at a depth.

    Args:
        library: with the kernels.
        execution: a `hotfire_exec`.
        dtype: of the matrices; activations are quantised for the quantised ones.
        n: tokens.
        depth: tokens before them.
    """

    def __init__(
        self, library: lib.Library, execution: Any, dtype: str, n: int, depth: int
    ) -> None:
        self._library, self._execution = library, execution
        self._dtype, self._n, self._depth = dtype, n, depth
        self._rng = np.random.default_rng(0)
        self._room = np.zeros(64 + 4 * (SHAPE["head_dim"] + 2), dtype=np.uint8)
        at = -(-self._room.ctypes.data // 64) * 64
        execution.workspace = library.ffi.cast("void *", at)
        execution.workspace_size = 4 * (SHAPE["head_dim"] + 2)
        self.steps = [step for layer in range(SHAPE["n_layers"]) for step in self._layer(layer)]
        self.steps += self._product("head", SHAPE["n_vocab"], SHAPE["n_embd"], 1)

    def _floats(self, *shape: int) -> Any:
        return self._rng.standard_normal(shape, dtype=np.float32)

    def _matrix(self, rows: int, cols: int) -> Any:
        some = named(self._dtype).encode(self._floats(16, cols))
        return np.tile(some, -(-rows // 16))[: named(self._dtype).n_bytes((rows, cols))]

    def _step(self, what: str, kernel: str, *given: Any, n_flops: float = 0) -> Step:
        ffi, function = self._library.ffi, getattr(self._library.lib, f"hotfire_{kernel}")
        types = ffi.typeof(function).args[1:]
        arrays = [each for each in given if isinstance(each, np.ndarray)]
        values = [
            ffi.cast(kind, each.ctypes.data) if isinstance(each, np.ndarray) else each
            for kind, each in zip(types, given, strict=True)
        ]

        def call(_keep: Any = arrays) -> None:
            if function(self._execution, *values):
                context = self._execution.context
                raise RuntimeError(
                    ffi.string(self._library.lib.hotfire_context_error(context)).decode()
                )

        return Step(what, call, sum(each.nbytes for each in arrays), n_flops)

    def _product(self, what: str, rows: int, cols: int, n: int) -> Iterator[Step]:
        x, y = self._floats(n, cols), np.zeros((n, rows), dtype=np.float32)
        if self._dtype in ("q4_0", "q8_0"):
            blocks = np.zeros(named("q8_0").n_bytes((n, cols)), dtype=np.uint8)
            yield self._step("quantize", "quantize_q8_0", x, blocks, n, cols)
            x = blocks
        weight = self._matrix(rows, cols)
        flops = 2.0 * n * rows * cols
        kernel = f"matmul_{self._dtype}"
        yield self._step(f"matmul {what}", kernel, weight, x, y, n, rows, cols, n_flops=flops)

    def _norm(self, rows: int, cols: int) -> Step:
        x, weight = self._floats(rows, cols), self._floats(cols)
        return self._step("norms", "rms_norm", x, weight, np.zeros_like(x), 1e-6, rows, cols)

    def _layer(self, layer: int) -> Iterator[Step]:
        n, n_embd, n_ff = self._n, SHAPE["n_embd"], SHAPE["n_ff"]
        yield self._norm(n, n_embd)
        yield from self._attend() if (layer + 1) % INTERVAL == 0 else self._delta_net()
        yield self._norm(n, n_embd)
        for _ in range(2):
            yield from self._product("ff", n_ff, n_embd, n)
        x = self._floats(n, n_ff)
        yield self._step("swiglu", "swiglu", x, x.copy(), np.zeros_like(x), n, n_ff)
        yield from self._product("ff", n_embd, n_ff, n)

    def _attend(self) -> Iterator[Step]:
        n, heads, kv_heads = self._n, SHAPE["n_heads"], SHAPE["n_kv_heads"]
        dim, n_kv = SHAPE["head_dim"], self._depth + self._n
        yield from self._product("mixer", 2 * heads * dim, SHAPE["n_embd"], n)
        for _ in range(2):
            yield from self._product("mixer", kv_heads * dim, SHAPE["n_embd"], n)
        q, pos = self._floats(n, heads, dim), np.arange(n, dtype=np.int32)
        yield self._norm(n * heads, dim)
        yield self._step(
            "rope", "rope_partial", q, pos, q.copy(), 1e6, n, heads, dim, N_ROT, dim, dim
        )
        cache = (self._floats(n_kv, kv_heads, dim).view(np.uint32) >> 16).astype(np.uint16)
        whole = (np.array([0, n]), np.array([0]), np.array([n_kv]))
        ranges = [each.astype(np.int32) for each in whole]
        seen = self._depth + (n + 1) / 2
        sizes = (n, 1, n_kv, kv_heads, heads // kv_heads, dim, 1)
        yield self._step(
            "attention", "attention_bf16", q, cache, cache.copy(), *ranges, np.zeros_like(q),
            dim**-0.5, *sizes, n_flops=4.0 * n * heads * dim * seen,
        )  # fmt: skip
        out = self._floats(n, heads * dim)
        gated = np.zeros_like(out)
        yield self._step("gates", "sigmoid_gate", out, out.copy(), gated, *out.shape)
        yield from self._product("mixer", SHAPE["n_embd"], heads * dim, n)

    def _delta_net(self) -> Iterator[Step]:
        n, heads, dim = self._n, SHAPE["n_value_heads"], SHAPE["key_dim"]
        n_conv = 3 * heads * dim
        for rows in (n_conv, heads * dim, heads, heads):
            yield from self._product("mixer", rows, SHAPE["n_embd"], n)
        a, vector = self._floats(n, heads), self._floats(heads)
        gate, beta = np.zeros_like(a), np.zeros_like(a)
        gates = (a, a.copy(), vector, vector.copy(), gate, beta)
        yield self._step("gates", "gated_delta_gates", *gates, n, heads)
        starts, has_state = np.array([0, n], dtype=np.int32), np.ones(1, dtype=np.int32)
        u, taps = self._floats(n, n_conv), self._floats(CONV_WIDTH, n_conv)
        kept = self._floats(CONV_WIDTH - 1, n_conv)
        conv = (u, taps, starts, has_state, np.zeros_like(u), kept)
        yield self._step("conv1d", "conv1d_causal", *conv, n, 1, n_conv, CONV_WIDTH)
        q, k, v = (self._floats(n, heads, dim) for _ in range(3))
        for each in (q, k):
            yield self._step("norms", "l2_norm", each, each, 1e-6, n * heads, dim, dim, dim)
        state = np.zeros((heads, dim, dim), dtype=np.float32)
        operands = (q, k, v, gate, beta, starts, has_state, np.zeros_like(v), state)
        sizes = (n, 1, heads, 1, dim, dim, 1)
        flops = 7.0 * n * heads * dim * dim
        yield self._step("delta rule", "gated_delta", *operands, dim**-0.5, *sizes, n_flops=flops)
        rows = (n * heads, dim)
        out, weight, z = self._floats(*rows), self._floats(dim), self._floats(*rows)
        yield self._step("norms", "rms_norm_gated", out, weight, z, np.zeros_like(out), 1e-6, *rows)
        yield from self._product("mixer", SHAPE["n_embd"], heads * dim, n)

    def run(self) -> dict[str, float]:
        """Seconds of each kind of step, of one pass."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for step in self.steps:
            begin = time.perf_counter()
            step.call()
            seconds[step.what] += time.perf_counter() - begin
        return seconds


def report(of: Pass, rounds: Sequence[dict[str, float]], theirs: Sequence[float]) -> None:
    """A row a kind of step, then the pass beside libllama's."""
    best = {what: min(each[what] for each in rounds) for what in rounds[0]}
    for what, seconds in sorted(best.items(), key=lambda item: -item[1]):
        steps = [step for step in of.steps if step.what == what]
        n_bytes, n_flops = sum(s.n_bytes for s in steps), sum(s.n_flops for s in steps)
        share = seconds / sum(best.values())
        print(
            f"  {what:14} {len(steps):4} calls {seconds * 1e3:9.2f} ms {share:6.1%}"
            f" {n_bytes / seconds / 1e9:7.1f} GB/s {n_flops / seconds / 1e9:8.1f} GFLOP/s"
        )
    mine = [sum(each.values()) for each in rounds]
    ratio = median(b / a for a, b in zip(mine, theirs, strict=True))
    print(
        f"  all kernels {min(mine) * 1e3:.1f} ms, libllama {min(theirs) * 1e3:.1f} ms a pass: "
        f"{ratio:.2f} of its tokens per second",
        flush=True,
    )


def prompt(engine: Engine, ids: Sequence[int]) -> float:
    """Seconds of libllama's prompt."""
    engine.seq_remove(0)
    return feed(engine, 0, ids[:N_PROMPT])


@click.command(help=__doc__)
@click.option("--lib", "folder", required=True, help="Folder of libllama.so.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(DTYPES), default=DTYPES)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--depth", type=int, default=512, show_default=True)
def main(folder: str, dtypes: Sequence[str], threads: int, rounds: int, depth: int) -> None:
    """Measures and prints a table a dtype."""
    library = lib.load()
    print(f"{evidence.machine()}, {threads} threads")
    ids = np.random.default_rng(0).integers(0, SHAPE["n_vocab"], 4096).tolist()
    config = probe.config(SHAPE)
    for dtype in dtypes:
        with TemporaryDirectory() as models:
            path = Path(models) / "model.gguf"
            gguf_file.write(path, config, probe.weights(config, 0, "bf16"), dtype)
            sizes = f"n_ctx=4096,n_seqs=1,n_batch=512,rollback=0,threads={threads}"
            with (
                lib.context(library, library.lib.HOTFIRE_ISA_AUTO, threads) as execution,
                open_engine(f"libllama:{path},{sizes},kv=f16,lib={folder}") as other,
            ):
                print(f"{dtype}, a prompt of {N_PROMPT} tokens")
                whole = Pass(library, execution, dtype, N_PROMPT, 0)
                pairs = [(whole.run(), prompt(other, ids)) for _ in range(rounds + 1)]
                report(whole, *zip(*pairs[1:], strict=True))
                print(f"{dtype}, a token at {depth}")
                single = Pass(library, execution, dtype, 1, depth)
                for at in range(N_PROMPT, depth, N_PROMPT):
                    feed(other, at, ids[at : min(at + N_PROMPT, depth)])
                pairs = [
                    (single.run(), feed(other, depth + i, ids[:1])) for i in range(10 * rounds)
                ]
                report(single, *zip(*pairs[rounds:], strict=True))


if __name__ == "__main__":
    main()
