"""Tokens per second of the native engine beside libllama's, on the shape of the 0.8B model.

    python ci/bench/engines.py --lib FOLDER [--dtype q4_0 ...] [--threads 2]

Probe weights (hidden 1024, 24 layers, ff 3584, vocab 32768), written once a dtype; both engines
read the same file in one process and take turns, so that what slows the machine slows both.
Prefill is a prompt of 512 tokens of which the last gives logits; decode is a window of 50 single
tokens at each depth. Printed are medians of the rounds, and the median of the rounds' ratios.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
import numpy as np

from hotfire import evidence
from hotfire.engines import Batch, Engine, Span, open_engine
from hotfire.ref.models import gguf_file, probe

SHAPE = {
    "n_layers": 24, "n_embd": 1024, "n_ff": 3584, "n_vocab": 32768, "n_heads": 8, "n_kv_heads": 2,
    "head_dim": 256, "n_key_heads": 16, "n_value_heads": 16, "key_dim": 128, "value_dim": 128,
}  # fmt: skip
WINDOW = 50
DTYPES = ("q4_0", "q8_0", "bf16")


def feed(engine: Engine, pos: int, ids: Sequence[int]) -> float:
    """Seconds of one decode."""
    batch = Batch.of([Span(0, pos, ids)], argmax_only=True)
    begin = time.perf_counter()
    engine.decode(batch)
    return time.perf_counter() - begin


def measure(engine: Engine, ids: Sequence[int], depths: Sequence[int]) -> Iterator[float]:
    """Tokens per second: the prefill's, then those of a window at each depth."""
    engine.seq_remove(0)
    at, n_prefill = 0, 0.0
    for depth in depths:
        while at < depth:
            size = min(512, depth - at)
            seconds = feed(engine, at, ids[at : at + size])
            at += size
            n_prefill = n_prefill or size / seconds
        begin = time.perf_counter()
        for _ in range(WINDOW):
            feed(engine, at, ids[at : at + 1])
            at += 1
        yield WINDOW / (time.perf_counter() - begin)
    yield n_prefill


@click.command(help=__doc__)
@click.option("--lib", required=True, help="Folder of libllama.so.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(DTYPES), default=DTYPES)
@click.option("--mode", type=click.Choice(["fast", "batch_invariant"]), default="fast")
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--depth", "depths", multiple=True, type=int, default=(512, 1024, 2048))
def main(
    lib: str, dtypes: Sequence[str], mode: str, threads: int, rounds: int, depths: Sequence[int]
) -> None:
    """Measures and prints a table."""
    print(f"{evidence.machine()}, {threads} threads, mode {mode}")
    print(f"{'dtype':6} {'what':18} {'native':>9} {'libllama':>9}  ratio   tokens/s")
    ids = np.random.default_rng(0).integers(0, SHAPE["n_vocab"], 4096).tolist()
    config = probe.config(SHAPE)
    names = [*(f"decode at {depth}" for depth in depths), "prefill of 512"]
    for dtype in dtypes:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            gguf_file.write(path, config, probe.weights(config, 0, "bf16"), dtype)
            sizes = f"n_ctx=4096,n_seqs=1,n_batch=512,rollback=0,threads={threads}"
            with (
                open_engine(f"native:{path},{sizes},mode={mode},kv=bf16") as native,
                open_engine(f"libllama:{path},{sizes},kv=f16,lib={lib}") as other,
            ):
                pairs = []
                for _ in range(rounds + 1):
                    pairs.append([list(measure(each, ids, depths)) for each in (native, other)])
                for name, rows in zip(names, np.array(pairs[1:]).transpose(2, 1, 0), strict=True):
                    ratio = median(rows[0] / rows[1])
                    print(
                        f"{dtype:6} {name:18} {median(rows[0]):9.2f} {median(rows[1]):9.2f}  "
                        f"{ratio:5.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
