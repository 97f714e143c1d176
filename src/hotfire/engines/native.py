"""`native:FILE.gguf`, the engine of the native library.

`native:probe,...`, or a folder of safetensors, is written to a temporary GGUF file first. Options:
`dtype` of such a file (f32, f16, bf16, q8_0, q4_0); `mode`, batch_invariant or fast; `kv`, f32,
bf16 or q8_0; `n_ubatch`; `rollback`, how many decodes back a sequence can go; `threads`; `isa`,
auto, scalar, avx2 or avx512; `fault`, one that is planted in a library of its own; `lib`, another
build of the library, such as one with sanitizers; `n_ctx`, `n_seqs` and `n_batch`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotfire import lib
from hotfire.engines.closing import Closing
from hotfire.engines.gguf_target import as_file, digest
from hotfire.engines.numpy_ import describe
from hotfire.engines.protocol import Batch, Description, Rows, Status, check_batch
from hotfire.engines.targets import Options
from hotfire.errors import InputError, LibraryError

UNITS = {"f32": 2.0**-24, "f16": 2.0**-24, "bf16": 2.0**-24, "q8_0": 2.0**-6, "q4_0": 2.0**-6}
"""Unit roundoff of activations before a product with weights of a dtype. They stay f32, but become
q8_0 for the quantised ones: see `libllama.UNITS`.
"""
KV_UNITS = {"f32": 2.0**-24, "bf16": 2.0**-8, "q8_0": 2.0**-6}
_PLANTED: list[list[str]] = []
"""The faults of the engines that are open, one a list of its own; the last is switched on."""

MODES = {"batch_invariant": 0, "fast": 1}
ISAS = {"auto": 0, "scalar": 1, "avx2": 2, "avx512": 3}
POS_MAX = 2**63 - 1
COUNTERS = (
    "n_decodes", "n_tokens", "n_rows", "n_pieces", "n_tokens_repeated", "n_removes", "n_copies",
    "n_saves", "n_restores",
)  # fmt: skip


class NativeEngine(Closing):
    """The engine. Threads may share it: their calls come one after another.

    Args:
        path: the model's file.
        description: what it should be.
        options: kv_type, flags, n_ubatch, n_snapshots; isa and n_threads of its context.
        library: that computes.
        fault: a planted fault's name, "" for none; only a library with mutants has any.

    Raises:
        InputError: if the library refuses the model or an option; with its own words.
    """

    def __init__(
        self,
        path: Path,
        description: Description,
        options: Mapping[str, int],
        library: lib.Library,
        fault: str = "",
    ) -> None:
        self._library = library
        self._description = description
        self._closed = True
        self._process, self._lock = os.getpid(), threading.RLock()
        with ExitStack() as stack:
            if fault:
                stack.enter_context(self._planted(fault))
            self._exec = stack.enter_context(
                lib.context(self._library, options["isa"], options["n_threads"])
            )
            self._model = self._owned(stack, "model", "open", os.fsencode(path))
            info = self._struct("model_info")
            self._must(self._library.lib.hotfire_model_describe(self._model, info))
            self._has_experts = bool(info.n_experts)
            given = self._struct(
                "engine_params",
                n_ctx=description.n_ctx,
                n_seqs=description.n_seqs,
                n_batch=description.n_batch,
                **{name: options[name] for name in ("kv_type", "flags", "n_ubatch", "n_snapshots")},
            )
            self._engine = self._owned(stack, "engine", "create", self._model, given)
            self._stack = stack.pop_all()
        self._closed = False

    @contextmanager
    def _planted(self, fault: str) -> Iterator[None]:
        """Switches a fault on, for this whole process, and off again. An engine that nobody closed
        is closed by the garbage collector, at any time: it must not switch off another's fault.
        """
        select = getattr(self._library.lib, "hotfire_mutant_select", None)
        if select is None:
            raise InputError(f"{self._library.path.name} has no faults; expected {lib.MUTANTS}")
        if not select(f"engine_{fault}".encode()):
            raise InputError(f"fault {fault!r} is not known; expected one of {', '.join(faults())}")
        mine = [fault]
        _PLANTED.append(mine)
        try:
            yield
        finally:
            is_latest = _PLANTED[-1] is mine
            _PLANTED[:] = [each for each in _PLANTED if each is not mine]
            if is_latest:
                before = f"engine_{_PLANTED[-1][0]}".encode() if _PLANTED else None
                select(before or self._library.ffi.NULL)

    def _struct(self, name: str, **fields: Any) -> Any:
        ffi, kind = self._library.ffi, f"hotfire_{name}"
        return ffi.new(f"{kind} *", {"struct_size": ffi.sizeof(kind), **fields})

    def _owned(self, stack: ExitStack, kind: str, verb: str, *arguments: Any) -> Any:
        """Makes a model or an engine that the stack frees."""
        handle = self._library.ffi.new(f"hotfire_{kind} **")
        make = getattr(self._library.lib, f"hotfire_{kind}_{verb}")
        self._must(make(self._exec.context, *arguments, handle))
        stack.callback(getattr(self._library.lib, f"hotfire_{kind}_free"), handle[0])
        return handle[0]

    def _must(self, status: int) -> None:
        """Raises what a status says.

        Raises:
            InputError: for a refused argument or file.
            LibraryError: for anything else.
        """
        if status == self._library.lib.HOTFIRE_STATUS_OK:
            return
        ffi, c = self._library.ffi, self._library.lib
        text = ffi.string(c.hotfire_context_error(self._exec.context)).decode(errors="replace")
        if status == c.HOTFIRE_STATUS_INVALID_ARGUMENT:
            raise InputError(text)
        raise LibraryError(f"{ffi.string(c.hotfire_status_name(status)).decode()}: {text}")

    @property
    def description(self) -> Description:
        return self._description

    def decode(self, batch: Batch) -> Rows:
        with self._alone():
            return self._decode(batch)

    def _decode(self, batch: Batch) -> Rows:
        self._check_open()
        n_past = {seq_id: self._length(seq_id) for seq_id in np.unique(batch.seq_id).tolist()}
        places = check_batch(batch, self._description, n_past)
        ffi, c, n_rows = self._library.ffi, self._library.lib, int(batch.logits.sum())
        given = {
            name: np.ascontiguousarray(getattr(batch, name), dtype=np.int32)
            for name in ("token", "pos", "seq_id")
        } | {"wanted": batch.logits.astype(np.uint8)}
        rows = self._outputs(batch, n_rows)
        kinds = {name: "uint8_t *" if name == "wanted" else "int32_t *" for name in given}
        status = c.hotfire_engine_decode(
            self._engine,
            self._struct(
                "batch",
                n_tokens=len(batch),
                **{name: ffi.cast(kinds[name], each.ctypes.data) for name, each in given.items()},
            ),
            self._struct(
                "rows",
                n_rows=n_rows,
                **{
                    name: ffi.cast(f"{'int32_t' if name == 'argmax' else 'float'} *",
                                   each.ctypes.data)
                    for name, each in rows.items()
                },
            ),
        )  # fmt: skip
        if status == c.HOTFIRE_STATUS_CONTEXT_FULL:
            n_ctx = self._description.n_ctx
            full = (seq for seq, where in places.items() if n_past[seq] + len(where) > n_ctx)
            return Rows(status=Status.CONTEXT_FULL, full=tuple(full))
        self._must(status)
        if not n_rows:
            return Rows()
        return Rows(**{**rows, "argmax": rows["argmax"].astype(np.int64)})

    def _outputs(self, batch: Batch, n_rows: int) -> dict[str, Any]:
        """Room for what is asked: argmax always, four bytes a row."""
        config = self._description
        wanted: dict[str, Any] = {"argmax": np.empty(n_rows, dtype=np.int32)}
        if not batch.argmax_only:
            wanted["logits"] = np.empty((n_rows, config.n_vocab), dtype=np.float32)
            if self._has_experts:
                wanted["router_margin"] = np.empty(n_rows, dtype=np.float32)
        if batch.hidden:
            shape = (n_rows, config.n_layers + 1, config.n_embd)
            wanted["hidden"] = np.empty(shape, dtype=np.float32)
        return wanted

    def seq_remove(self, seq_id: int, pos: int = 0) -> bool:
        with self._alone():
            self._check_seq(seq_id)
            pos = min(pos, POS_MAX)
            status = self._library.lib.hotfire_engine_seq_remove(self._engine, seq_id, pos)
            if status == self._library.lib.HOTFIRE_STATUS_NO_SNAPSHOT:
                return False
            self._must(status)
            return True

    def seq_copy(self, source: int, target: int) -> None:
        with self._alone():
            self._check_seq(source)
            self._check_seq(target)
            self._must(self._library.lib.hotfire_engine_seq_copy(self._engine, source, target))

    def seq_save(self, seq_id: int) -> bytes:
        with self._alone():
            self._check_seq(seq_id)
            ffi, save = self._library.ffi, self._library.lib.hotfire_engine_seq_save
            needed = ffi.new("uint64_t *")
            self._must(save(self._engine, seq_id, ffi.NULL, 0, needed))
            room = bytearray(needed[0])
            self._must(save(self._engine, seq_id, ffi.from_buffer(room), len(room), needed))
        return bytes(room)

    def seq_restore(self, seq_id: int, saved: bytes) -> None:
        with self._alone():
            self._check_seq(seq_id)
            given = self._library.ffi.from_buffer(saved)
            restore = self._library.lib.hotfire_engine_seq_restore
            self._must(restore(self._engine, seq_id, given, len(saved)))

    def _length(self, seq_id: int) -> int:
        """Tokens of a sequence; 0 for a number that is none, which `check_batch` refuses."""
        if not 0 <= seq_id < self._description.n_seqs:
            return 0
        return int(self._library.lib.hotfire_engine_seq_length(self._engine, seq_id))

    def counters(self) -> Mapping[str, int]:
        found = self._struct("counters")
        with self._alone():
            if not self._closed:
                self._must(self._library.lib.hotfire_engine_counters(self._engine, found))
        return {name: getattr(found, name) for name in COUNTERS}

    def close(self) -> None:
        with self._alone():
            self._closed = True
            self._stack.close()

    def _alone(self) -> threading.RLock:
        """Is held during a call, as the library serves one thread at a time."""
        if self._process != os.getpid():  # a fork; a thread that it lacks may hold the lock
            self._process, self._lock = os.getpid(), threading.RLock()
        return self._lock

    def _check_seq(self, seq_id: int) -> None:
        self._check_open()
        if not 0 <= seq_id < self._description.n_seqs:
            raise InputError(f"seq_id {seq_id}; expected 0 to {self._description.n_seqs - 1}")

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self._description.name} was closed; open it again")


def faults() -> list[str]:
    """Names of the faults that can be planted in the engine.

    Raises:
        LibraryError: if the library with the faults was not built.
    """
    library = lib.load(lib.MUTANTS)
    names, index = list[str](), 0
    while (name := library.lib.hotfire_mutant_name(index)) != library.ffi.NULL:
        if library.ffi.string(library.lib.hotfire_mutant_operation(index)) == b"engine":
            names.append(library.ffi.string(name).decode().removeprefix("engine_"))
        index += 1
    return names


def _one_of(options: Options, name: str, default: str, known: Mapping[str, Any]) -> str:
    given = options.text(name, default)
    if given not in known:
        raise InputError(f"{name}={given!r}; expected one of {', '.join(known)}")
    return given


def open_target(name: str, model: str, options: Options) -> NativeEngine:
    """Opens `native:MODEL`, see the module's first lines."""
    sizes = options.sizes()
    dtype, fault, built = options.text("dtype"), options.text("fault"), options.text("lib")
    mode = _one_of(options, "mode", "batch_invariant", MODES)
    kv = _one_of(options, "kv", "f32", KV_UNITS)
    asked = {
        "kv_type": list(KV_UNITS).index(kv),
        "flags": MODES[mode],
        "n_ubatch": options.whole("n_ubatch", 512),
        "n_snapshots": options.whole("rollback", 8, least=0),
        "n_threads": options.whole("threads", 1),
        "isa": ISAS[_one_of(options, "isa", "auto", ISAS)],
    }
    wanted = options.probe()
    options.finish()
    library = lib.load_path(Path(built)) if built else lib.load(lib.MUTANTS if fault else lib.CORE)
    with as_file(model, wanted, dtype) as (path, config, stored):
        scope = {"weights": digest(path), "kv": kv, "stored": stored, "mode": mode}
        description = describe(name, config, unit=UNITS["f32"], scope=scope, **sizes)
        description = replace(description, unit_stored=max(UNITS[stored], KV_UNITS[kv]))
        return NativeEngine(path, description, asked, library, fault)
