"""What a hostile caller does to the engine, as assertions: `python hostile.py MODEL [LIBRARY]`.

Nothing is checked before the library is called. Run by itself it can have a library with sanitizers
underneath.
"""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hotfire import lib

INVALID, MISMATCH = 1, 2

PARAMS = {"n_ctx": 24, "n_seqs": 4, "n_batch": 64, "n_ubatch": 4, "n_snapshots": 3}


class Raw:
    """One context, one model, one engine.

    Args:
        path: the model's file.
        library: that computes.
        params: of the engine, over PARAMS.
    """

    def __init__(self, path, library, context, **params):
        self.ffi, self.c, self.context = library.ffi, library.lib, context
        self.model, self.engine = (
            self.ffi.new("hotfire_model **"),
            self.ffi.new("hotfire_engine **"),
        )
        assert self.open(path) == 0, self.said()
        assert self.create(**params) == 0, self.said()
        self.info = self.struct("model_info")
        self.c.hotfire_model_describe(self.model[0], self.info)

    def struct(self, name, **fields):
        size = {"struct_size": self.ffi.sizeof(f"hotfire_{name}"), **fields}
        return self.ffi.new(f"hotfire_{name} *", size)

    def said(self):
        return self.ffi.string(self.c.hotfire_context_error(self.context)).decode()

    def open(self, path):
        return self.c.hotfire_model_open(self.context, os.fsencode(path), self.model)

    def create(self, **params):
        given = self.struct("engine_params", **{**PARAMS, **params})
        return self.c.hotfire_engine_create(self.context, self.model[0], given, self.engine)

    def array(self, kind, values, shift=0):
        """An array of the caller's; `shift` bytes off its alignment."""
        size = self.ffi.sizeof(kind)
        room = self.ffi.new("char[]", size * len(values) + shift or 1)
        at = self.ffi.cast(f"{kind} *", room + shift)
        self.ffi.memmove(
            at, self.ffi.from_buffer(np.array(values, dtype=NUMPY[kind])), size * len(values)
        )
        self.kept = [*getattr(self, "kept", [])[-64:], room]
        return at

    def batch(self, token, pos, seq_id, wanted, **fields):
        arrays = {
            "token": self.array("int32_t", token), "pos": self.array("int32_t", pos),
            "seq_id": self.array("int32_t", seq_id), "wanted": self.array("uint8_t", wanted),
        }  # fmt: skip
        return self.struct("batch", **{"n_tokens": len(token), **arrays, **fields})

    def decode(self, spans, wanted=None):
        """Decodes {seq: tokens}; the status and the logits."""
        token, pos, seq_id = [], [], []
        for seq, own in spans.items():
            past = self.c.hotfire_engine_seq_length(self.engine[0], seq)
            token, seq_id = token + own, seq_id + [seq] * len(own)
            pos += range(past, past + len(own))
        logits = np.full((len(token), self.info.n_vocab), np.nan, dtype=np.float32)
        at = self.ffi.cast("float *", logits.ctypes.data)
        rows = self.struct("rows", n_rows=len(token), logits=at)
        batch = self.batch(token, pos, seq_id, wanted or [1] * len(token))
        return self.c.hotfire_engine_decode(self.engine[0], batch, rows), logits

    def length(self, seq):
        return self.c.hotfire_engine_seq_length(self.engine[0], seq)

    def save(self, seq):
        needed = self.ffi.new("uint64_t *")
        save = self.c.hotfire_engine_seq_save
        assert save(self.engine[0], seq, self.ffi.NULL, 0, needed) == 0
        room = bytearray(needed[0])
        assert save(self.engine[0], seq, self.ffi.from_buffer(room), len(room), needed) == 0
        return room

    def restore(self, seq, saved):
        return self.c.hotfire_engine_seq_restore(
            self.engine[0], seq, self.ffi.from_buffer(saved), len(saved)
        )


NUMPY = {"int32_t": np.int32, "uint8_t": np.uint8, "float": np.float32}
HEAD = 40
"""Bytes of a saved sequence before its tokens: magic, fingerprint, checksum, type, 0, n_tokens."""


def fnv1a(data):
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def sealed(saved):
    """A saved sequence with the checksum that its bytes have."""
    saved[16:24] = fnv1a(bytes(saved[HEAD:])).to_bytes(8, "little")
    return saved


@contextmanager
def opened(path, library=None, n_threads=1, **params):
    """A `Raw`; its model is freed before it is used."""
    library = library or lib.load()
    with lib.context(library, 0, n_threads) as given:
        raw = Raw(path, library, given.context, **params)
        raw.c.hotfire_model_free(raw.model[0])
        yield raw
        raw.c.hotfire_engine_free(raw.engine[0])


def misaligned_arrays(raw):
    """Each is refused, and nothing is done."""
    for name in ("token", "pos", "seq_id"):
        batch = raw.batch([1], [0], [0], [0])
        setattr(batch, name, raw.array("int32_t", [0], 1))
        assert raw.c.hotfire_engine_decode(raw.engine[0], batch, raw.ffi.NULL) == INVALID
        assert f"batch.{name} is" in raw.said()
    for name, kind in (("logits", "float"), ("argmax", "int32_t"), ("hidden", "float"),
                       ("router_margin", "float")):  # fmt: skip
        rows = raw.struct("rows", n_rows=1, **{name: raw.array(kind, [0] * 4096, 2)})
        batch = raw.batch([1], [0], [0], [1])
        assert raw.c.hotfire_engine_decode(raw.engine[0], batch, rows) == INVALID
        assert f"rows.{name} is" in raw.said()
    assert raw.length(0) == 0


def wrong_structs(raw):
    """The status, and the context's text is of this call."""
    decode, null = raw.c.hotfire_engine_decode, raw.ffi.NULL
    batch = raw.batch([1], [0], [0], [0])
    for given, rows, status, says in (
        (null, null, INVALID, "batch is NULL"),
        (raw.struct("batch", struct_size=8), null, MISMATCH, "batch.struct_size is 8"),
        (batch, raw.struct("rows", struct_size=0), MISMATCH, "rows.struct_size is 0"),
        (batch, raw.struct("rows", reserved=1), INVALID, "rows.reserved is 1"),
        (batch, raw.struct("rows", n_rows=1), INVALID, "rows.n_rows is 1"),
        (batch, raw.struct("rows", n_rows=-(2**63)), INVALID, "rows.n_rows is -9"),
        (raw.struct("batch", n_tokens=1), null, INVALID, "batch.token is NULL"),
        (raw.batch([1], [0], [0], [9]), null, INVALID, "rows is NULL"),
        (raw.batch([1], [0], [0], [0], n_tokens=-1), null, INVALID, "n_tokens -1"),
        (raw.batch([1], [2**31 - 1], [0], [0]), null, INVALID, "position 2147483647"),
        (raw.batch([1], [0], [-(2**31)], [0]), null, INVALID, "seq_id -2147483648"),
    ):
        assert decode(raw.engine[0], given, rows) == status, says
        assert says in raw.said(), raw.said()
    assert decode(null, batch, null) == INVALID
    assert raw.c.hotfire_engine_counters(raw.engine[0], null) == INVALID
    assert raw.said() == "counters is NULL"
    assert raw.c.hotfire_engine_counters(raw.engine[0], raw.struct("counters", struct_size=8)) == (
        MISMATCH
    )
    assert raw.said().startswith("counters.struct_size is 8; expected ")
    for function, handle in (("engine_seq_save", raw.engine[0]), ("model_open", raw.context)):
        rest = (0, null, 0, null) if "save" in function else (null, null)
        assert getattr(raw.c, f"hotfire_{function}")(handle, *rest) == INVALID
        assert "is NULL" in raw.said()


def overlapping_arrays(raw):
    """Whatever is written lies apart from all else: else it is refused, and nothing is done."""
    decode, ffi = raw.c.hotfire_engine_decode, raw.ffi
    held = ffi.new("char[]", 1 << 14)  # `raw.array` would let it go after 64 more
    room = held + 0
    kinds = {"logits": "float *", "argmax": "int32_t *", "hidden": "float *",
             "router_margin": "float *"}  # fmt: skip
    at = {name: ffi.cast(kind, room + 4096 * i) for i, (name, kind) in enumerate(kinds.items())}
    n_vocab, width = int(raw.info.n_vocab), (raw.info.n_layers + 1) * int(raw.info.n_embd)
    last = {"logits": 2 * n_vocab - 1, "argmax": 1, "hidden": 2 * width - 1, "router_margin": 1}
    for one, one_kind in kinds.items():
        for other in kinds.keys() - {one}:  # the last element of `one` is the first of `other`
            shared = ffi.cast(kinds[other], at[one] + last[one])
            rows = raw.struct("rows", n_rows=2, **{one: at[one], other: shared})
            assert decode(raw.engine[0], raw.batch([1, 2], [0, 1], [0, 0], [1, 1]), rows) == INVALID
            assert "overlaps rows." in raw.said(), (one, other)
        for column in ("token", "pos", "seq_id", "wanted"):
            batch = raw.batch([1, 2], [0, 1], [0, 0], [1, 1])
            given = ffi.cast("char *", getattr(batch, column))
            rows = raw.struct("rows", n_rows=2, **{one: ffi.cast(one_kind, given)})
            assert decode(raw.engine[0], batch, rows) == INVALID
            assert "overlaps batch" in raw.said(), (one, column)  # or the array that lies next
        batch = raw.batch([1, 2], [0, 1], [0, 0], [1, 1])
        rows = raw.struct("rows", n_rows=2)
        for struct in (batch, rows):
            setattr(rows, one, ffi.cast(one_kind, struct))
            assert decode(raw.engine[0], batch, rows) == INVALID
        setattr(rows, one, ffi.cast(one_kind, 2**64 - 4))
        assert decode(raw.engine[0], batch, rows) == INVALID
        assert "from there" in raw.said()
    assert raw.length(0) == 0
    batch = raw.batch([1], [0], [1], [0])  # without rows nothing is written there
    rows = raw.struct("rows", logits=ffi.cast("float *", batch.token))
    assert decode(raw.engine[0], batch, rows) == 0
    rows = raw.struct("rows", n_rows=2, **at)  # apart, if only just, it is right
    rows.argmax = ffi.cast("int32_t *", rows.logits + 2 * n_vocab)
    assert decode(raw.engine[0], raw.batch([1, 2], [0, 1], [0, 0], [1, 1]), rows) == 0
    needed = ffi.cast("uint64_t *", room)
    assert raw.c.hotfire_engine_seq_save(raw.engine[0], 0, room, 1 << 14, needed) == INVALID
    assert "needed" in raw.said()


def a_failed_save_writes_nothing(raw):
    raw.decode({0: [1, 2, 3]})
    room, needed = bytearray(b"\7" * 64), raw.ffi.new("uint64_t *", 77)
    save = raw.c.hotfire_engine_seq_save
    assert save(raw.engine[0], 0, raw.ffi.from_buffer(room), 64, needed) == INVALID
    assert (needed[0], bytes(room)) == (77, b"\7" * 64)
    assert "room for 64 bytes" in raw.said()


def crafted_states(raw):
    """Whatever the bytes say, with a right checksum, it is refused or runs; nothing else moves."""
    _, want = raw.decode({1: [4, 5]})
    raw.decode({0: [1, 2, 3]})
    honest = raw.save(0)
    rng = np.random.default_rng(0)
    for number in range(60):
        saved = bytearray(honest)
        if number % 3 == 0:
            at = int(rng.integers(HEAD, len(saved) - 4))
            saved[at : at + 4] = np.float32([np.nan, np.inf, 3e38][number // 3 % 3]).tobytes()
        elif number % 3 == 1:
            n_tokens = [-1, 0, 2, 4, 24, 25, 2**62, -(2**63)][number // 3 % 8]
            saved[32:40] = n_tokens.to_bytes(8, "little", signed=True)
            saved[28] = number // 3 % 2
        else:
            token = [-1, 2**31 - 1, int(raw.info.n_vocab)][number // 3 % 3]
            saved[HEAD : HEAD + 4] = token.to_bytes(4, "little", signed=True)
        status = raw.restore(2, sealed(saved))
        assert status == (0 if number % 3 == 0 else INVALID), number
        raw.decode({2: [1, 2]})
        raw.c.hotfire_engine_seq_remove(raw.engine[0], 2, 0)
    assert raw.restore(2, honest) == 0
    for seq in (0, 2):
        status, rows = raw.decode({seq: [6]})
        assert status == 0
        assert np.isfinite(rows).all()
    raw.c.hotfire_engine_seq_remove(raw.engine[0], 1, 0)
    assert np.array_equal(raw.decode({1: [4, 5]})[1], want)


def going_back_everywhere(raw):
    """Every position, after pieces, twice in a row, of a copy, then saved: the bits stay."""
    ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    raw.c.hotfire_engine_seq_remove(raw.engine[0], 3, 0)
    want = np.concatenate([raw.decode({3: ids})[1], raw.decode({3: [7, 7]})[1]])
    ids += [7, 7]
    for first in range(13):
        for second in range(first + 1):
            for seq in (0, 1, 2):
                raw.c.hotfire_engine_seq_remove(raw.engine[0], seq, 0)
            raw.decode({0: ids[:7]})
            raw.decode({0: ids[7:12]})
            raw.decode({0: [0]})
            remove = raw.c.hotfire_engine_seq_remove
            assert raw.c.hotfire_engine_seq_copy(raw.engine[0], 0, 1) == 0
            assert raw.c.hotfire_engine_seq_copy(raw.engine[0], 1, 1) == 0
            for pos in (first, second):
                assert remove(raw.engine[0], 1, pos) == 0, raw.said()
            assert (raw.length(0), raw.length(1)) == (13, second)
            assert raw.restore(2, raw.save(1)) == 0
            for seq in (1, 2):
                status, rows = raw.decode({seq: ids[second:]})
                assert status == 0
                assert np.array_equal(rows, want[second:]), (first, second, seq)


ATTACKS = (
    misaligned_arrays,
    overlapping_arrays,
    wrong_structs,
    a_failed_save_writes_nothing,
    crafted_states,
    going_back_everywhere,
)

if __name__ == "__main__":
    used = lib.load_path(Path(sys.argv[2])) if len(sys.argv) > 2 else lib.load()
    for attack in ATTACKS:
        with opened(sys.argv[1], used) as one:
            attack(one)
    print("stood")
