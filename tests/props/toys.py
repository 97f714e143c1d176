"""Two small operations with every trait that state relations look at, and adapters with faults.

`decay` carries a state through packed sequences, `running_mean` reads a pool in splits. They are
in no registry: the relations must follow from the spec alone.
"""

from __future__ import annotations

import textwrap

import numpy as np

from hotfire.ref.operation import Axis, Operand, Operation, Sequences, gamma
from hotfire.ref.sequences import draw_flags, draw_log_gates, draw_ranges, draw_starts, spans


def decay(x, gate, seq_start, has_state, state, magnitude=False):
    """state = exp(gate) state + x, y = state, token by token."""
    new = np.where((has_state != 0)[:, None], state, 0.0)
    new = np.abs(new) if magnitude else new
    y = np.zeros_like(x)
    for seq, (first, end) in enumerate(spans(seq_start)):
        if first == end:
            new[seq] = np.abs(state[seq]) if magnitude else state[seq]
        for token in range(first, end):
            new[seq] = np.exp(gate[token]) * new[seq] + (
                np.abs(x[token]) if magnitude else x[token]
            )
            y[token] = new[seq]
    return {"y": y, "state": new}


def decay_bound(x, gate, seq_start, has_state, state, n_tokens):
    """Four roundings a token on the sum of magnitudes."""
    sums = decay(x, gate, seq_start, has_state, state, magnitude=True)
    idle = (np.diff(seq_start) == 0)[:, None]
    factor = gamma(4 * n_tokens + 4)
    return {"y": factor * sums["y"], "state": np.where(idle, 0.0, factor * sums["state"])}


def decay_structure(rng, sizes, gates=draw_log_gates):
    n_tokens, n_seqs = sizes["n_tokens"], sizes["n_seqs"]
    return {
        "gate": gates(rng, (n_tokens,)),
        "seq_start": draw_starts(rng, n_tokens, n_seqs),
        "has_state": draw_flags(rng, n_seqs),
    }


def decay_exact(rng, sizes):
    shape = (sizes["n_tokens"], sizes["n_channels"])
    whole = decay_structure(rng, sizes, lambda rng, shape: np.zeros(shape))
    return whole | {
        "x": rng.integers(-9, 10, shape).astype(float),
        "state": rng.integers(-9, 10, (sizes["n_seqs"], shape[1])).astype(float),
    }


DECAY = Operation(
    name="decay",
    doc="A sum that fades.",
    axes=(
        Axis(name="n_tokens", doc="tokens", edges=(1, 4, 16, 64), long=(512,)),
        Axis(name="n_seqs", doc="sequences", least=1, edges=(1, 2, 3)),
        Axis(name="n_channels", doc="width", edges=(1, 4, 8)),
    ),
    inputs=(
        Operand(name="x", dtype="f32", axes=("n_tokens", "n_channels"), doc="values"),
        Operand(name="gate", dtype="f32", axes=("n_tokens",), doc="logarithms"),
        Operand(name="seq_start", dtype="i32", axes=("n_seqs + 1",), doc="starts"),
        Operand(name="has_state", dtype="i32", axes=("n_seqs",), doc="flags"),
    ),
    outputs=(
        Operand(name="y", dtype="f32", axes=("n_tokens", "n_channels"), doc="sums"),
        Operand(
            name="state", dtype="f32", axes=("n_seqs", "n_channels"), doc="last sum", updated=True
        ),
    ),
    reference=decay,
    bound=decay_bound,
    exact=decay_exact,
    structure=decay_structure,
    fills={
        "slow": lambda rng, sizes: {"gate": np.full(sizes["n_tokens"], -np.log(2) / 4096)},
        "corners": lambda rng, sizes: {
            "gate": rng.choice([0.0, -200.0], sizes["n_tokens"]),
        },
    },
    sequences=Sequences(
        tokens="n_tokens", seqs="n_seqs", starts="seq_start", has_state="has_state"
    ),
)


def running_mean(x, v, seq_start, kv_begin, kv_len):
    """y = x + mean of the sequence's pool rows up to the token's own."""
    y = np.zeros_like(x)
    for seq, (first, end) in enumerate(spans(seq_start)):
        for token in range(first, end):
            n_seen = kv_len[seq] - (end - token) + 1
            y[token] = x[token] + v[kv_begin[seq] : kv_begin[seq] + n_seen].mean(axis=0)
    return {"y": y}


def running_mean_bound(x, v, seq_start, kv_begin, kv_len, n_kv):
    size = running_mean(np.abs(x), np.abs(v), seq_start, kv_begin, kv_len)["y"]
    return {"y": gamma(n_kv + 8) * size}


def running_mean_structure(rng, sizes):
    starts = draw_starts(rng, sizes["n_tokens"], sizes["n_seqs"])
    begin, length = draw_ranges(rng, sizes["n_kv"], np.diff(starts))
    return {"seq_start": starts, "kv_begin": begin, "kv_len": length}


def running_mean_exact(rng, sizes):
    """One row of the pool is not zero, and a power of two tokens see it: a needle."""
    starts = np.array([0] + [sizes["n_tokens"]] * sizes["n_seqs"])
    length = np.zeros(sizes["n_seqs"], dtype=int)
    length[0] = sizes["n_kv"]
    width = sizes["n_channels"]
    v = np.zeros((sizes["n_kv"], width))
    v[rng.integers(0, sizes["n_kv"])] = rng.integers(1, 9, width)
    v *= sizes["n_kv"]
    x = np.zeros((sizes["n_tokens"], width))
    return {"x": x, "v": v, "seq_start": starts, "kv_begin": 0 * length, "kv_len": length}


MEAN = Operation(
    name="running_mean",
    doc="A mean of what came before.",
    axes=(
        Axis(name="n_tokens", doc="tokens", most="n_kv", edges=(1, 4)),
        Axis(name="n_seqs", doc="sequences", least=1, edges=(1, 2, 3)),
        Axis(
            name="n_kv", doc="rows of the pool", edges=(1, 31, 32, 33), long=(14079, 14080, 14081)
        ),
        Axis(name="n_channels", doc="width", edges=(1, 4)),
        Axis(name="n_splits", doc="parts of the sum", least=1, edges=(1, 2, 8), cut=True),
    ),
    inputs=(
        Operand(name="x", dtype="f32", axes=("n_tokens", "n_channels"), doc="values"),
        Operand(name="v", dtype="f32", axes=("n_kv", "n_channels"), doc="pool"),
        Operand(name="seq_start", dtype="i32", axes=("n_seqs + 1",), doc="starts"),
        Operand(name="kv_begin", dtype="i32", axes=("n_seqs",), doc="first rows"),
        Operand(name="kv_len", dtype="i32", axes=("n_seqs",), doc="lengths"),
    ),
    outputs=(Operand(name="y", dtype="f32", axes=("n_tokens", "n_channels"), doc="means"),),
    reference=running_mean,
    bound=running_mean_bound,
    exact=running_mean_exact,
    structure=running_mean_structure,
    sequences=Sequences(
        tokens="n_tokens",
        seqs="n_seqs",
        starts="seq_start",
        ranges={"n_kv": ("kv_begin", "kv_len")},
    ),
)

_ADAPTER = """
import ctypes
import numpy as np
from hotfire.props.provider import Kernel, Provider, Refused

memory = {}


def array(call, name, kind, *shape):
    count = int(np.prod(shape))
    data = (kind * count).from_address(call.pointers[name]) if count else []
    dtype = np.float32 if kind is ctypes.c_float else np.int32
    return np.frombuffer(data, dtype=dtype).reshape(shape) if count else np.empty(shape, dtype)


def decay(call):
    n, s, c = (call.sizes[name] for name in ("n_tokens", "n_seqs", "n_channels"))
    x, y = (array(call, name, ctypes.c_float, n, c) for name in ("x", "y"))
    gate = array(call, "gate", ctypes.c_float, n)
    starts = array(call, "seq_start", ctypes.c_int32, s + 1)
    has_state = array(call, "has_state", ctypes.c_int32, s)
    state = array(call, "state", ctypes.c_float, s, c)
    for i in range(s):
        first, end = starts[i], starts[i + 1]
        if first == end:
            continue
        if not has_state[i]:
            {fresh}
        {before}
        for t in range(first, end):
            g = np.exp(gate[t])
            {token}
            state[i] = g * state[i] + x[t]
            y[t] = state[i]
        {after}


def running_mean(call):
    names = ("n_tokens", "n_seqs", "n_kv", "n_channels", "n_splits")
    n, s, k, c, n_splits = (call.sizes[name] for name in names)
    x, y = (array(call, name, ctypes.c_float, n, c) for name in ("x", "y"))
    v = array(call, "v", ctypes.c_float, k, c)
    starts = array(call, "seq_start", ctypes.c_int32, s + 1)
    begin, length = (array(call, name, ctypes.c_int32, s) for name in ("kv_begin", "kv_len"))
    for i in range(s):
        for t in range(starts[i], starts[i + 1]):
            seen = length[i] - (starts[i + 1] - t) + 1
            rows = v[begin[i] : begin[i] + seen]
            parts = np.array_split(rows, n_splits)
            {parts}
            total = sum((part.sum(axis=0, dtype=np.float32) for part in parts), np.float32(0))
            y[t] = x[t] + total / np.float32(seen)


def provide(argument):
    kernels = [
        Kernel(operation="decay", variant="numpy", call=decay, row_invariant=True,
               batch_invariant=True),
        Kernel(operation="running_mean", variant="numpy", call=running_mean),
    ]
    return Provider(name=__file__, version="1", kernels=kernels)
"""

PLACES = {"fresh": "state[i] = 0", "before": "", "token": "", "after": "", "parts": ""}


def adapter_text(**faults: str) -> str:
    """The adapter's source with a fault at some of `PLACES`."""
    text = textwrap.dedent(_ADAPTER)
    for place, right in PLACES.items():
        text = text.replace("{" + place + "}", faults.get(place, right or "pass"))
    return text
