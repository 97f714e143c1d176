"""How sharp the tiers are: planted faults in one wrong row of 64 at K = 4096, and clean cases.

    .venv/bin/python ci/bench/sharpness.py [--trials 200] [--clean 10000]

A trial plants one fault in one row of a quantised product, as a wrong kernel would compute it, and
asks who notices: T0 on designed integers or T1 on normal values; and beside them, on the same
normal values and the same faulty result, the global NMSE <= 5e-4 of ggml's test-backend-ops, an
allclose of 1e-2, and the ratio of norms <= 0.005 of flash-linear-attention.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from hotfire import lib
from hotfire.ref.formats import named
from hotfire.ref.formats.q8_0 import unpack_scale
from hotfire.ref.operation import Operation
from hotfire.ref.registry import operation

N_ROWS, N_COLS, BLOCK_LEN = 64, 4096, 32
N_BLOCKS = N_COLS // BLOCK_LEN
Codes = np.ndarray[Any, np.dtype[np.float64]]


class Row:
    """One row of a product in quantised form, for a fault to spoil."""

    def __init__(self, dtype: str, weight: np.ndarray, x: np.ndarray) -> None:
        self.w_scale, self.w = _parts(dtype, weight)
        self.x_scale, self.x = _parts("q8_0", x)
        self.accumulate = np.float32
        self.n_blocks = N_BLOCKS

    def product(self) -> np.float32:
        """As a plain kernel sums it: whole products of a block, then f32 from left to right."""
        dots = (self.w * self.x).sum(axis=1)[: self.n_blocks]
        scales = (self.w_scale * self.x_scale)[: self.n_blocks]
        total = self.accumulate(0)
        with np.errstate(over="ignore", invalid="ignore"):
            for term in (dots * scales).astype(np.float32):
                total = self.accumulate(total + self.accumulate(term))
        return np.float32(total)


def _parts(dtype: str, stored: np.ndarray) -> tuple[Codes, Codes]:
    fmt = named(dtype)
    blocks = stored.reshape(-1, fmt.block_size)
    unit = blocks.copy()
    unit[:, :2] = np.array([1.0], dtype="<f2").view(np.uint8)
    return unpack_scale(blocks)[:, 0], fmt.decode_blocks(unit)


def _last_block(row: Row, _: np.random.Generator) -> None:
    row.n_blocks -= 1


def _swapped(row: Row, rng: np.random.Generator) -> None:
    block, at = rng.integers(N_BLOCKS), rng.integers(16)
    row.w[block, [at, at + 16]] = row.w[block, [at + 16, at]]


def _neighbours_scale(row: Row, rng: np.random.Generator) -> None:
    block = rng.integers(N_BLOCKS - 1)
    row.w_scale[block] = row.w_scale[block + 1]


def _scale_off(row: Row, rng: np.random.Generator) -> None:
    row.w_scale[rng.integers(N_BLOCKS)] *= 1 + 1 / 64


def _shifted(row: Row, rng: np.random.Generator) -> None:
    block = rng.integers(N_BLOCKS)
    row.x[block] = np.roll(row.x[block], 1)


def _in_f16(row: Row, _: np.random.Generator) -> None:
    row.accumulate = np.float16


FAULTS: dict[str, Callable[[Row, np.random.Generator], None]] = {
    "last block dropped": _last_block,
    "two nibbles swapped": _swapped,
    "neighbouring block's scale": _neighbours_scale,
    "a scale off by 1/64": _scale_off,
    "activations shifted by one in a block": _shifted,
    "f16 accumulation": _in_f16,
}


class Kernel:
    """The shipped product of one format, called in this process."""

    def __init__(self, dtype: str) -> None:
        self.op: Operation = operation(f"matvec_{dtype}")
        self.library = lib.load()
        self.context = lib.context(self.library, self.library.lib.HOTFIRE_ISA_AUTO)
        self.execution = self.context.__enter__()

    def __call__(self, weight: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The f32 result."""
        ffi, y = self.library.ffi, np.empty(N_ROWS, dtype=np.float32)
        types = [f"{each.format.c_type} *" for each in self.op.operands]
        pointers = [
            ffi.cast(kind, data.ctypes.data)
            for kind, data in zip(types, (weight, x, y), strict=True)
        ]
        function = getattr(self.library.lib, f"hotfire_{self.op.name}")
        assert function(self.execution, *pointers, N_ROWS, N_COLS) == 0
        return y


class Judged:
    """Inputs of one tier with what is right, and who alarms at a result."""

    def __init__(self, kernel: Kernel, dtype: str, rng: np.random.Generator, exact: bool) -> None:
        self.dtype, self.exact = dtype, exact
        if exact:
            drawn = kernel.op.exact(rng, {"n_rows": N_ROWS, "n_cols": N_COLS})
        else:
            drawn = {"weight": rng.standard_normal((N_ROWS, N_COLS))}
        self.weight = named(dtype).encode(drawn["weight"])
        self._logical = named(dtype).decode(self.weight, (N_ROWS, N_COLS))
        self.with_x(kernel, drawn["x"] if exact else rng.standard_normal(N_COLS))

    def with_x(self, kernel: Kernel, x: np.ndarray) -> None:
        """Puts another x in."""
        self.x = named("q8_0").encode(x)
        logical = named("q8_0").decode(self.x, (N_COLS,))
        self.want = kernel.op.reference(self._logical, logical)["y"]
        self.bound = kernel.op.bound(self._logical, logical)["y"]
        self.clean = kernel(self.weight, self.x)

    def with_fault(self, fault: str, at: int, rng: np.random.Generator) -> np.ndarray:
        """The clean result with one row computed wrongly."""
        size = named(self.dtype).n_bytes((N_COLS,))
        row = Row(self.dtype, self.weight[at * size : (at + 1) * size].copy(), self.x.copy())
        FAULTS[fault](row, rng)
        got = self.clean.copy()
        got[at] = row.product()
        return got

    def alarms(self, got: np.ndarray) -> bool:
        """Whether the tier alarms."""
        with np.errstate(invalid="ignore"):
            error = np.abs(got.astype(np.float64) - self.want)
        return not (error <= (0 if self.exact else self.bound)).all()

    def others(self, got: np.ndarray) -> dict[str, bool]:
        """Whether the measures of other suites alarm."""
        error = got.astype(np.float64) - self.want
        power = float((self.want**2).sum())
        return {
            "NMSE 5e-4": not float((error**2).sum()) / power <= 5e-4,
            "allclose 1e-2": not np.allclose(got, self.want, rtol=1e-2, atol=1e-2),
            "ratio 0.005": not float(np.sqrt((error**2).mean() / (self.want**2).mean())) <= 0.005,
        }


def plant(dtype: str, n_trials: int) -> None:
    """Prints the rate at which each measure finds each fault."""
    kernel, names = (
        Kernel(dtype),
        ("T0", "T1", "T0 or T1", "NMSE 5e-4", "allclose 1e-2", "ratio 0.005"),
    )
    print(f"\n{dtype}: share of {n_trials} trials found")
    print(f"{'':40}" + "".join(f"{name:>15}" for name in names))
    counts = {fault: dict.fromkeys(names, 0) for fault in FAULTS}
    for trial in range(n_trials):
        rng = np.random.default_rng(trial)
        designed, normal = (Judged(kernel, dtype, rng, exact) for exact in (True, False))
        for fault, count in counts.items():
            at = int(rng.integers(N_ROWS))
            t0 = designed.alarms(designed.with_fault(fault, at, rng))
            got = normal.with_fault(fault, at, rng)
            found = {"T0": t0, "T1": normal.alarms(got), **normal.others(got)}
            found["T0 or T1"] = found["T0"] or found["T1"]
            for name in names:
                count[name] += found[name]
    for fault, count in counts.items():
        print(f"{fault:40}" + "".join(f"{count[name] / n_trials:15.1%}" for name in names))


def keep_quiet(dtype: str, n_clean: int) -> None:
    """Prints the false alarms of both tiers on clean results, each with an x of its own."""
    kernel, alarms, worst = Kernel(dtype), 0, 0.0
    per_weight = 50
    for first in range(0, n_clean, 2 * per_weight):
        rng = np.random.default_rng(first)
        for exact in (True, False):
            case = Judged(kernel, dtype, rng, exact)
            for _ in range(per_weight):
                alarms += case.alarms(case.clean)
                if not exact:
                    ratio = np.abs(case.clean - case.want) / case.bound
                    worst = max(worst, float(ratio.max()))
                    case.with_x(kernel, rng.standard_normal(N_COLS))
                else:
                    sizes = {"n_rows": 1, "n_cols": N_COLS}
                    case.with_x(kernel, kernel.op.exact(rng, sizes)["x"])
    print(
        f"{dtype}: {alarms} false alarms in {n_clean} clean cases; worst error / bound {worst:.1e}"
    )


def main() -> None:
    """Both formats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--clean", type=int, default=10_000)
    options = parser.parse_args()
    for dtype in ("q4_0", "q8_0"):
        plant(dtype, options.trials)
    print()
    for dtype in ("q4_0", "q8_0"):
        keep_quiet(dtype, options.clean)


if __name__ == "__main__":
    main()
