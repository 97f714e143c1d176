"""`hash:`, an engine whose next token is a hash of its exact history.

    h_0 = mix(seed),  h_n = mix(h_{n-1} xor mix(token_n + 1)),
    logit_v = the top 24 bits of mix(h_n + v), from -2 to 2

It costs nothing, and whoever feeds it a token too many, too few, or of another sequence gets other
logits from then on: faults of scheduling and caching show at once. `mix` is splitmix64's finaliser
(Steele, Lea, Flood 2014).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotfire.engines.protocol import Description
from hotfire.engines.sequential import Held, Sequential, Step
from hotfire.engines.targets import Options
from hotfire.errors import InputError

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """64 bits to 64 bits, one to one; each input bit changes half of the output bits."""
    x = (x + GOLDEN) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def _mix_all(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` of every entry."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(GOLDEN)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


class HashEngine(Sequential[int]):
    """The engine; a state is the hash of the history.

    Args:
        name: the target.
        n_vocab, n_ctx, n_seqs, n_batch: as in `Description`.
        seed: another seed is another model.
    """

    def __init__(
        self,
        name: str,
        *,
        n_vocab: int = 256,
        n_ctx: int = 4096,
        n_seqs: int = 64,
        n_batch: int = 4096,
        seed: int = 0,
    ) -> None:
        super().__init__(
            Description(name=name, n_vocab=n_vocab, n_ctx=n_ctx, n_seqs=n_seqs, n_batch=n_batch)
        )
        self._seed = seed

    def fresh(self) -> int:
        return mix(self._seed & MASK)

    def advance(self, state: int, tokens: Sequence[int], hidden: bool) -> Step[int]:
        hashes = []
        for token in tokens:
            state = mix(state ^ mix(token + 1))
            hashes.append(state)
        ids: NDArray[np.uint64] = np.arange(self.description.n_vocab, dtype=np.uint64)
        words = _mix_all(np.add.outer(np.array(hashes, dtype=np.uint64), ids))
        logits = (words >> np.uint64(40)).astype(np.float64) / 2.0**22 - 2.0
        return Step(state, logits)

    def dump(self, held: Held[int]) -> bytes:
        return json.dumps({"seed": self._seed, "tokens": held.tokens}).encode()

    def load(self, saved: bytes) -> Held[int]:
        try:
            tree = json.loads(saved)
            seed, tokens = tree["seed"], [int(token) for token in tree["tokens"]]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"these bytes are no saved state of hash: {error}") from None
        if seed != self._seed or any(not 0 <= t < self.description.n_vocab for t in tokens):
            raise InputError("these bytes are the state of another hash engine")
        state = self.fresh()
        for token in tokens:
            state = mix(state ^ mix(token + 1))
        return Held(state, tokens)


def open_target(name: str, model: str, options: Options) -> HashEngine:
    """Opens `hash:`; options n_vocab, n_ctx, n_seqs, n_batch, seed."""
    if model:
        raise InputError(f"hash: takes no model, got {model!r}")
    n_vocab, seed = options.whole("n_vocab", 256, least=2), options.whole("seed", 0, least=0)
    sizes = options.sizes()
    options.finish()
    return HashEngine(name, n_vocab=n_vocab, seed=seed, **sizes)
