"""Opens damaged GGUF files: `fuzz_files.py SEED N [LIBRARY]`.

With the native engine, of the library that is given if one is, and with the reference.

A file is a small model with bytes of its head changed, numbers in it replaced by absurd ones, or
cut. Either it is refused with one clear error, for its own fault or for want of memory, or it runs.
Prints how many of N were refused.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hotfire import lib
from hotfire.engines import Batch, Span, open_engine
from hotfire.engines.native import NativeEngine
from hotfire.engines.protocol import Description
from hotfire.errors import HotfireError, InputError
from hotfire.ref.models import gguf_file, probe

ABSURD = [0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
LIBRARY = lib.load_path(Path(sys.argv[3])) if len(sys.argv) > 3 else lib.load()
SIZES = {"n_layers": 2, "interval": 2, "n_embd": 32, "n_ff": 32, "n_vocab": 16, "n_experts": 4}


def damaged(rng, whole, n_head):
    """The bytes of a file with one to three things wrong."""
    data = bytearray(whole)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, n_head))
        kind = rng.integers(0, 4)
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            width = int(rng.choice([4, 8]))
            value = int(rng.choice(np.array(ABSURD, dtype=object))) % 2 ** (8 * width)
            data[at : at + width] = value.to_bytes(width, "little")
        elif kind == 2:
            other = int(rng.integers(0, n_head))
            data[at : at + 16] = data[other : other + 16]
        else:
            del data[int(rng.integers(0, len(data))) :]
            n_head = max(1, min(n_head, len(data)))
    return bytes(data)


def native(path):
    """The native engine by itself, without the reference's look at the file first."""
    description = Description(name="fuzzed", n_vocab=16, n_ctx=8, n_seqs=1, n_batch=8)
    options = {"kv_type": 0, "flags": 0, "n_ubatch": 8, "n_snapshots": 0, "isa": 0, "n_threads": 1}
    return NativeEngine(path, description, options, LIBRARY)


def numpy(path):
    return open_engine(f"numpy:{path},n_ctx=8,n_seqs=1,n_batch=8")


def refused(opened, path):
    """Whether a file is refused, with one line; if not, it must run."""
    try:
        with opened(path) as engine:
            engine.decode(Batch.of([Span(0, 0, [0, 1, 2], "none")]))
    except HotfireError as error:
        clear = isinstance(error, InputError) or "out of memory" in str(error)
        if "\n" in str(error) or not clear:
            raise
        return True
    return False


def main(seed, n):
    rng, counts = np.random.default_rng(seed), {native: 0, numpy: 0}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        wholes = []
        for n_experts in (0, 4):
            config = probe.config({**SIZES, "n_experts": n_experts})
            gguf_file.write(path, config, probe.weights(config, 0), "q8_0")
            wholes.append(path.read_bytes())
        for number in range(n):
            whole = wholes[number % 2]
            path = Path(folder) / f"{number}.gguf"
            n_head = whole.rindex(b"blk.1.") + 100
            path.write_bytes(damaged(rng, whole, n_head))
            for opened in counts:
                counts[opened] += refused(opened, path)
            path.unlink()
    print({opened.__name__: count for opened, count in counts.items()})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
