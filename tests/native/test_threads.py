"""Contexts share nothing that changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hotfire import lib

N_CALLS = 300


def test_two_contexts_work_in_two_threads(library):
    """Each gives the bits that it gives alone, and keeps its own error text."""

    def work(seed: int) -> tuple[bytes, set[str]]:
        ffi, functions = library.ffi, library.lib
        x = np.random.default_rng(seed).standard_normal((16, 1000)).astype(np.float32)
        y = np.zeros_like(x)
        texts, results = set(), set()
        with lib.context(library, functions.HOTFIRE_ISA_AUTO) as execution:
            for _ in range(N_CALLS):
                operands = (ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", y))
                assert functions.hotfire_softmax(execution, *operands, *x.shape) == 0
                assert functions.hotfire_softmax(execution, *operands, -seed, 1) != 0
                texts.add(ffi.string(functions.hotfire_context_error(execution.context)).decode())
                results.add(y.tobytes())
        assert len(results) == 1
        return results.pop(), texts

    alone = [work(seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, (1, 2)))
    assert together == alone
    assert [texts for _, texts in together] == [
        {f"n_rows is -{seed}; expected 0 or more"} for seed in (1, 2)
    ]
