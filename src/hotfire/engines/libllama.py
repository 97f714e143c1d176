"""`libllama:FILE.gguf`, llama.cpp's library in this process.

`libllama:probe,...` and `libllama:nano` write a temporary GGUF file first. Options: `lib`, the
folder of the library (or HOTFIRE_LIBLLAMA); `dtype` of that file; `kv`, f32 or f16; `n_ubatch`;
`rollback`, how many tokens back its recurrent state can go; `threads`; `n_ctx`, `n_seqs` and
`n_batch`.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotfire.engines.closing import Closing
from hotfire.engines.gguf_target import as_file, digest
from hotfire.engines.libllama_binding import Binding, library_in, load
from hotfire.engines.numpy_ import describe
from hotfire.engines.protocol import Batch, Description, Rows, Status, check_batch
from hotfire.engines.targets import Options
from hotfire.errors import InputError, LibraryError

UNITS = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "q8_0": 2.0**-6, "q4_0": 2.0**-6}
"""Unit roundoff of activations before a product with weights of a dtype: they are rounded to it,
or to q8_0 for the quantised ones: a step is 1/127 of a block's largest, some 2.5 times the RMS, so
that its error is as large as that of a float with u = 2^-6.
"""
THREADS_MAX = 512
"""Of ggml, which is not asked for more without ending the process."""
STREAM = "l_out-"
"""Name of a layer's output in llama.cpp's graphs, with its number."""
EMBEDDING = "model.input_embed"
HEAD = struct.Struct("<Q32s")


class LibllamaEngine(Closing):
    """The engine.

    Args:
        binding: of the library.
        path: the model's file.
        description: what it should be; n_ctx becomes what the library really offers.
        options: n_ubatch, n_rs_seq, n_threads and the KV cache's ggml type.

    Raises:
        InputError: if the library cannot load the model; with its own words.
    """

    def __init__(
        self, binding: Binding, path: Path, description: Description, options: Mapping[str, int]
    ) -> None:
        self._b = binding
        self._model = self._context = binding.ffi.NULL
        self._closed = True
        self._n_past: dict[int, int] = {}
        self._counters: Counter[str] = Counter()
        self._streams: dict[str, Any] | None = None
        ffi, lib = binding.ffi, binding.lib
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = lib.llama_model_load_from_file(str(path).encode(), params)
        if self._model == ffi.NULL:
            raise InputError(f"libllama cannot load {path}: {binding.complaint()}")
        self._observer = ffi.callback("bool(struct ggml_tensor *, bool, void *)", self._observe)
        self._context = lib.llama_init_from_model(self._model, self._params(description, options))
        if self._context == ffi.NULL:
            lib.llama_model_free(self._model)
            raise InputError(f"libllama cannot make a context: {binding.complaint()}")
        self._memory = lib.llama_get_memory(self._context)
        self._closed = False
        n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        n_ctx = int(lib.llama_n_ctx_seq(self._context))
        self._description = replace(description, n_vocab=int(n_vocab), n_ctx=n_ctx)

    def _params(self, description: Description, options: Mapping[str, int]) -> Any:
        lib = self._b.lib
        params = lib.llama_context_default_params()
        params.n_ctx = description.n_ctx * description.n_seqs
        params.n_batch = description.n_batch
        params.n_seq_max = description.n_seqs
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.kv_unified = False
        params.no_perf = True
        for name, value in options.items():
            setattr(params, name, value)
        params.cb_eval = self._observer
        return params

    @property
    def description(self) -> Description:
        return self._description

    def decode(self, batch: Batch) -> Rows:
        self._check_open()
        places = check_batch(batch, self._description, self._n_past)
        self._streams = {} if batch.hidden else None
        try:
            answer = self._call(batch)
        finally:
            streams, self._streams = self._streams, None
        if answer == 1:
            n_ctx = self._description.n_ctx
            full = (s for s, w in places.items() if self._n_past.get(s, 0) + len(w) > n_ctx)
            return Rows(status=Status.CONTEXT_FULL, full=tuple(full))
        if answer:
            raise LibraryError(f"llama_decode answered {answer}: {self._b.complaint()}")
        for seq_id, where in places.items():
            self._n_past[seq_id] = self._n_past.get(seq_id, 0) + len(where)
        self._counters["n_decodes"] += 1
        self._counters["n_tokens"] += len(batch)
        return self._rows(batch, streams)

    def _call(self, batch: Batch) -> int:
        ffi, n = self._b.ffi, len(batch)
        ids = [ffi.new("int32_t[]", [seq_id]) for seq_id in batch.seq_id.tolist()]
        columns = {
            "token": ffi.new("int32_t[]", batch.token.tolist()),
            "pos": ffi.new("int32_t[]", batch.pos.tolist()),
            "n_seq_id": ffi.new("int32_t[]", [1] * n),
            "seq_id": ffi.new("int32_t *[]", ids),
            "logits": ffi.new("int8_t[]", batch.logits.astype(np.int8).tolist()),
        }
        given = ffi.new("struct llama_batch *", {"n_tokens": n, **columns})
        return int(self._b.lib.llama_decode(self._context, given[0]))

    def _rows(self, batch: Batch, streams: Mapping[str, Any] | None) -> Rows:
        wanted = np.flatnonzero(batch.logits)
        self._counters["n_rows"] += len(wanted)
        if not len(wanted):
            return Rows()
        logits = np.stack([self._row(int(at)) for at in wanted])
        return Rows(
            logits=None if batch.argmax_only else logits,
            argmax=logits.argmax(axis=1).astype(np.int64),
            hidden=None if streams is None else self._hidden(streams, batch, wanted),
        )

    def _row(self, at: int) -> Any:
        """A row of logits, copied."""
        where = self._b.lib.llama_get_logits_ith(self._context, at)
        if where == self._b.ffi.NULL:
            raise LibraryError(f"llama_get_logits_ith({at}) gave nothing: {self._b.complaint()}")
        size = 4 * self._description.n_vocab
        return np.frombuffer(self._b.ffi.buffer(where, size), dtype=np.float32).copy()

    def _observe(self, tensor: Any, ask: bool, _data: Any) -> bool:
        """Called for each node of the graph: says which are wanted, and copies those."""
        if self._streams is None:
            return not ask
        ffi = self._b.ggml_ffi
        address = int(self._b.ffi.cast("uintptr_t", tensor))
        node = ffi.cast("struct ggml_tensor *", address)
        name = ffi.string(node.name).decode(errors="replace")
        if not name.startswith(STREAM) and name != EMBEDDING:
            return not ask
        if not ask:
            shape = (node.ne[1], node.ne[0])
            got = np.empty(shape, dtype=np.float32)
            target = ffi.cast("void *", got.ctypes.data)
            self._b.ggml.ggml_backend_tensor_get(node, target, 0, got.nbytes)
            self._streams[name] = got
        return True

    def _hidden(self, streams: Mapping[str, Any], batch: Batch, wanted: Any) -> Any:
        """[n_rows, n_layers + 1, n_embd], if the batch was computed in one piece and in order, as
        one of a single sequence is.

        The last layer has only the rows that give logits.
        """
        n_layers, n_tokens = self._description.n_layers, len(batch)
        if len(np.unique(batch.seq_id)) > 1:
            return None
        names = [EMBEDDING, *(f"{STREAM}{layer}" for layer in range(n_layers))]
        kept = []
        for name in names:
            stream = streams.get(name)
            if stream is None or len(stream) not in (n_tokens, len(wanted)):
                return None
            kept.append(stream[wanted] if len(stream) == n_tokens else stream)
        return np.stack(kept, axis=1)

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        self._check_seq(seq_id)
        if pos < 0:
            raise InputError(f"position {pos}; expected 0 or more")
        if pos >= self._n_past.get(seq_id, 0):
            return True
        self._counters["n_removes"] += 1
        if not self._b.lib.llama_memory_seq_rm(self._memory, seq_id, pos, -1):
            return False
        self._n_past[seq_id] = pos
        return True

    def seq_copy(self, source: int, target: int) -> None:
        self._check_seq(source)
        self._check_seq(target)
        if source == target:
            return
        self._counters["n_copies"] += 1
        self._b.lib.llama_memory_seq_rm(self._memory, target, -1, -1)
        self._b.lib.llama_memory_seq_cp(self._memory, source, target, -1, -1)
        self._n_past[target] = self._n_past.get(source, 0)

    def seq_save(self, seq_id: int) -> bytes:
        self._check_seq(seq_id)
        self._counters["n_saves"] += 1
        ffi, lib = self._b.ffi, self._b.lib
        size = lib.llama_state_seq_get_size(self._context, seq_id)
        room = ffi.new("uint8_t[]", max(1, size))
        written = lib.llama_state_seq_get_data(self._context, room, size, seq_id)
        state = bytes(ffi.buffer(room, written))
        return HEAD.pack(self._n_past.get(seq_id, 0), self._seal(state)) + state

    def _seal(self, state: bytes) -> bytes:
        """A digest of a saved state and of the model and cache that it is for."""
        own = ",".join(self._description.scope.get(name, "") for name in ("weights", "kv"))
        return hashlib.sha256(own.encode() + state).digest()

    def seq_restore(self, seq_id: int, saved: bytes) -> None:
        self._check_seq(seq_id)
        state = saved[HEAD.size :]
        n_past, sha = HEAD.unpack(saved[: HEAD.size]) if len(saved) >= HEAD.size else (0, b"")
        if self._seal(state) != sha or n_past > self._description.n_ctx:
            raise InputError("these bytes are no saved state of libllama with this model and cache")
        lib, before = self._b.lib, self._n_past.get(seq_id, 0)
        lib.llama_memory_seq_rm(self._memory, seq_id, -1, -1)
        self._n_past[seq_id] = 0
        if n_past and not lib.llama_state_seq_set_data(self._context, state, len(state), seq_id):
            raise InputError(
                f"libllama refused a saved state, and sequence {seq_id} lost its {before} tokens: "
                f"{self._b.complaint()}"
            )
        self._counters["n_restores"] += 1
        self._n_past[seq_id] = n_past

    def counters(self) -> Mapping[str, int]:
        return dict(self._counters)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._b.lib.llama_free(self._context)
        self._b.lib.llama_model_free(self._model)

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self._description.name} was closed; open it again")

    def _check_seq(self, seq_id: int) -> None:
        self._check_open()
        if not 0 <= seq_id < self._description.n_seqs:
            raise InputError(f"seq_id {seq_id}; expected 0 to {self._description.n_seqs - 1}")


def open_target(name: str, model: str, options: Options) -> LibllamaEngine:
    """Opens `libllama:MODEL`, see the module's first lines."""
    sizes = options.sizes(default_ctx=1024)
    library = library_in(options.text("lib"))
    dtype, kv = options.text("dtype"), options.text("kv", "f32")
    if kv not in ("f32", "f16"):
        raise InputError(f"kv={kv!r}; expected f32 or f16")
    threads = options.whole("threads", 1, most=THREADS_MAX)
    kind = {"f32": 0, "f16": 1}[kv]
    asked = {
        "n_ubatch": options.whole("n_ubatch", 512),
        "n_rs_seq": options.whole("rollback", 8, least=0),
        "n_threads": threads,
        "n_threads_batch": threads,
        "type_k": kind,
        "type_v": kind,
    }
    wanted = options.probe()
    options.finish()
    with as_file(model, wanted, dtype) as (path, config, stored):
        scope = {"library": digest(library), "weights": digest(path), "kv": kv, "stored": stored}
        description = describe(name, config, unit=UNITS["f32"], scope=scope, **sizes)
        unit = max(UNITS[stored], UNITS[kv])
        description = replace(description, unit_stored=unit)
        return LibllamaEngine(load(library), path, description, asked)
