/*
 * hotfire.h: the C interface of the hotfire reference library, ABI version 1.
 *
 * Introduction
 *   The library computes the operations that an LLM engine is made of, and is such an engine. Every
 *   function is plain C11, takes fixed-width types, returns a hotfire_status and throws nothing.
 *   The kernels themselves are declared in hotfire_kernels.h, which is written from the operations'
 *   specs.
 *
 * Handshake
 *   Every struct that crosses this interface starts with `struct_size`; set it to sizeof the struct
 *   as you compiled it. A size that this library does not know is refused with
 *   HOTFIRE_STATUS_ABI_MISMATCH before any other field is read. hotfire_abi_version() must equal
 *   HOTFIRE_ABI_VERSION. hotfire_layout() lists what the compiler of this library made of each
 *   struct and enum, so that a binding can compare before its first call.
 *
 * Failure
 *   A function that returns anything but HOTFIRE_STATUS_OK has written nothing to its outputs.
 *   hotfire_context_error() then says in words what was expected and what came. A NULL where a
 *   handle or a struct is expected is refused like any other argument.
 *
 * Threads
 *   A context may be used by one thread at a time, and so may what was made with it, except
 *   models. Contexts share nothing that changes. A model and its engines belong to the process that
 *   opened it: after a fork they answer UNSUPPORTED.
 *   With n_threads above 1 the first call that is worth splitting starts the context's own threads,
 *   and hotfire_context_free() ends them. Results are the same to the bit at any number of threads,
 *   also in fast arithmetic. After a fork a call on a context whose threads were started is refused
 *   with UNSUPPORTED, as the child has none of them.
 *
 * Memory
 *   The caller owns every buffer. The library reads exactly the inputs and writes exactly the
 *   outputs, of the extent that the kernel's comment gives; not one byte before or after.
 *   Alignment: each buffer is aligned to its element (4 bytes for float, 2 for a quantised block);
 *   a misaligned one is refused. No kernel asks for more.
 *   Aliasing: an output may not overlap an input or another output, unless the kernel's comment
 *   says "in place": then it may be exactly the named input, never a shifted part of it. Overlaps
 *   are refused, in kernels and engines alike.
 *   An output whose comment says "updated" is read first: a carried state, a cache.
 *   A size of zero is valid where the comment allows it; operands without elements are not looked
 *   at and may be NULL, and a call that has nothing to write does nothing.
 *   Rows are contiguous: no kernel of version 1 takes strides. Sequences of different lengths lie
 *   packed, one after another, with their starts in an operand of their own.
 *   The workspace holds nothing between calls, and its contents before a call mean nothing.
 *
 * Arithmetic
 *   By default results are batch invariant: on one instruction set they are the same to the bit
 *   however the work is cut, whatever the number of rows, columns, chunks or splits and whatever
 *   the neighbours, as the order of every sum depends on the row's own data alone. With
 *   HOTFIRE_EXEC_FAST a kernel whose comment says so may order and group its sums as is quickest;
 *   its results are then bounded against the default ones. The other kernels ignore the flag.
 *
 * Devices
 *   With a context of the CPU backend every call has finished when it returns, `stream` must be
 *   NULL, and buffers are host memory. A device backend takes device pointers and enqueues on
 *   `stream`; errors of the device itself are then seen at the next synchronisation.
 */
#ifndef HOTFIRE_H
#define HOTFIRE_H

#include <stdint.h>

#if defined(__GNUC__)
#define HOTFIRE_API __attribute__((visibility("default")))
#else
#define HOTFIRE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------ */

#define HOTFIRE_ABI_VERSION 1

/*! hotfire_abi_version() : the HOTFIRE_ABI_VERSION that the library was compiled with. */
HOTFIRE_API uint32_t hotfire_abi_version(void);

/* ---- Status ------------------------------------------------------------------------------- */

typedef enum hotfire_status {
    HOTFIRE_STATUS_OK = 0,
    HOTFIRE_STATUS_INVALID_ARGUMENT = 1, /* a size, scalar, pointer, alignment or overlap */
    HOTFIRE_STATUS_ABI_MISMATCH = 2,     /* struct_size or abi_version of another header */
    HOTFIRE_STATUS_UNSUPPORTED = 3,      /* this machine or build lacks what was asked for */
    HOTFIRE_STATUS_OUT_OF_MEMORY = 4,
    HOTFIRE_STATUS_INTERNAL = 5,         /* a fault of the library; please report it */
    HOTFIRE_STATUS_CONTEXT_FULL = 6,     /* a sequence would have outgrown n_ctx; nothing was done */
    HOTFIRE_STATUS_NO_SNAPSHOT = 7       /* a sequence cannot go back that far; nothing was done */
} hotfire_status;

/*! hotfire_status_name() : the name of a status, "unknown" for a number that is none. */
HOTFIRE_API const char *hotfire_status_name(hotfire_status status);

/* ---- Instruction sets --------------------------------------------------------------------- */

typedef enum hotfire_isa {
    HOTFIRE_ISA_AUTO = 0, /* the widest that this machine has */
    HOTFIRE_ISA_SCALAR = 1,
    HOTFIRE_ISA_AVX2 = 2,  /* with FMA and F16C */
    HOTFIRE_ISA_AVX512 = 3 /* F, BW, DQ, VL and VNNI, over what AVX2 asks for */
} hotfire_isa;

/*! hotfire_isa_available() : 1 if this machine and build can run `isa`, else 0. */
HOTFIRE_API int32_t hotfire_isa_available(hotfire_isa isa);

typedef enum hotfire_backend {
    HOTFIRE_BACKEND_CPU = 0
} hotfire_backend;

/* ---- Context ------------------------------------------------------------------------------ */

/* What kernels run with: a backend, an instruction set, the last error's text. */
typedef struct hotfire_context hotfire_context;

typedef struct hotfire_context_params {
    uint32_t struct_size; /* sizeof(hotfire_context_params) */
    uint32_t abi_version; /* HOTFIRE_ABI_VERSION */
    uint32_t backend;     /* enum hotfire_backend */
    uint32_t isa;         /* enum hotfire_isa; one that the machine lacks gives UNSUPPORTED */
    uint32_t n_threads;   /* that a call may use, the caller's included; 0 means 1, at most 1024 */
} hotfire_context_params;

/*! hotfire_context_create() : makes a context; `*context` is untouched unless the status is OK. */
HOTFIRE_API hotfire_status hotfire_context_create(const hotfire_context_params *params,
                                                  hotfire_context **context);

/*! hotfire_context_free() : frees a context; NULL is allowed. */
HOTFIRE_API void hotfire_context_free(hotfire_context *context);

/*! hotfire_context_isa() : the instruction set that the context's kernels run, never AUTO; AUTO for
 *  NULL. */
HOTFIRE_API hotfire_isa hotfire_context_isa(const hotfire_context *context);

/*! hotfire_context_error() : what was wrong with the last call that failed on this context, ""
 *  if none has. The text lives until the next call on the context. NULL gives the calling thread's
 *  text: of its last failed call that had no context, such as hotfire_context_create(),
 *  hotfire_model_describe(), or any with NULL for what it works on. */
HOTFIRE_API const char *hotfire_context_error(const hotfire_context *context);

/* ---- Execution ---------------------------------------------------------------------------- */

typedef enum hotfire_exec_flag {
    HOTFIRE_EXEC_FAST = 1 /* fast arithmetic, see "Arithmetic" above */
} hotfire_exec_flag;

/* Where and with what one kernel call runs. */
typedef struct hotfire_exec {
    uint32_t struct_size;    /* sizeof(hotfire_exec) */
    uint32_t flags;          /* enum hotfire_exec_flag, or-ed */
    hotfire_context *context;
    void *stream;            /* the backend's queue; NULL on the CPU */
    void *workspace;         /* scratch of the caller's, 64-byte aligned; may be NULL if the size is 0 */
    uint64_t workspace_size; /* bytes, at least what the kernel's comment asks for, if it does */
} hotfire_exec;

/* ---- Model -------------------------------------------------------------------------------- */

/* A Qwen3.5 text model, dense or of experts: the weights of a GGUF file, mapped, never changed.
 * Any number of engines in any threads may use it. */
typedef struct hotfire_model hotfire_model;

typedef struct hotfire_model_info {
    uint32_t struct_size; /* sizeof(hotfire_model_info) */
    uint32_t n_layers;
    int64_t n_vocab;      /* tokens are 0 to n_vocab - 1 */
    int64_t n_embd;
    int64_t n_ctx_train;  /* the longest context that the model was made for */
    int64_t n_experts;    /* 0 in a dense model */
    uint64_t fingerprint; /* of what results depend on: fields; names, types, shapes and first
                             bytes of tensors */
} hotfire_model_info;

/*! hotfire_model_open() : maps the GGUF file at `path` (arch qwen35 or qwen35moe; f32, f16, bf16,
 *  q8_0, q4_0). A file that is damaged or lacks something gives INVALID_ARGUMENT, and the
 *  context's text says what; `*model` is untouched unless the status is OK. The context is used
 *  for that text alone. The file must not change while it is open. */
HOTFIRE_API hotfire_status hotfire_model_open(hotfire_context *context, const char *path,
                                              hotfire_model **model);

/*! hotfire_model_free() : gives the model back; engines that use it go on. NULL is allowed. */
HOTFIRE_API void hotfire_model_free(hotfire_model *model);

/*! hotfire_model_describe() : fills in `info`, whose struct_size is set. */
HOTFIRE_API hotfire_status hotfire_model_describe(const hotfire_model *model,
                                                  hotfire_model_info *info);

/* ---- Engine ------------------------------------------------------------------------------- */

/* Sequences of one model, each a growing list of tokens under a number. One thread at a time. */
typedef struct hotfire_engine hotfire_engine;

typedef enum hotfire_kv_type {
    HOTFIRE_KV_F32 = 0,
    HOTFIRE_KV_BF16 = 1,
    HOTFIRE_KV_Q8_0 = 2
} hotfire_kv_type;

typedef struct hotfire_engine_params {
    uint32_t struct_size; /* sizeof(hotfire_engine_params) */
    uint32_t flags;       /* enum hotfire_exec_flag, or-ed */
    uint32_t kv_type;     /* enum hotfire_kv_type: what keys and values are stored as */
    uint32_t n_ctx;       /* tokens that one sequence may have */
    uint32_t n_seqs;      /* seq_id is 0 to n_seqs - 1; at most 65536, and n_ctx * n_seqs < 2^31 */
    uint32_t n_batch;     /* tokens of one decode, at most */
    uint32_t n_ubatch;    /* of those, how many are computed at once */
    uint32_t n_snapshots; /* a sequence can go back as far as before its last n_snapshots decodes */
} hotfire_engine_params;

/*! hotfire_engine_create() : makes an engine without sequences, on a context that must outlive it.
 *  `*engine` is untouched unless the status is OK. */
HOTFIRE_API hotfire_status hotfire_engine_create(hotfire_context *context,
                                                 const hotfire_model *model,
                                                 const hotfire_engine_params *params,
                                                 hotfire_engine **engine);

/*! hotfire_engine_free() : frees an engine; NULL is allowed. */
HOTFIRE_API void hotfire_engine_free(hotfire_engine *engine);

/* Tokens to append, [n_tokens] each. Those of a sequence are in order and continue it; sequences
 * may be mixed in any way. */
typedef struct hotfire_batch {
    uint32_t struct_size; /* sizeof(hotfire_batch) */
    int32_t n_tokens;
    const int32_t *token;
    const int32_t *pos;    /* of each in its sequence */
    const int32_t *seq_id;
    const uint8_t *wanted; /* not 0 where a row of results is wanted */
} hotfire_batch;

/* Where a decode writes its rows, one for each wanted token in the batch's order. No array may
 * overlap another, one of the batch's, or either struct. */
typedef struct hotfire_rows {
    uint32_t struct_size; /* sizeof(hotfire_rows) */
    uint32_t reserved;    /* 0 */
    int64_t n_rows;       /* how many: exactly those that are wanted */
    float *logits;        /* [n_rows, n_vocab], or NULL */
    int32_t *argmax;      /* [n_rows] the first of the largest logits, or NULL */
    float *hidden;        /* [n_rows, n_layers + 1, n_embd] the residual stream, or NULL */
    float *router_margin; /* [n_rows], or NULL: the least, over layers, of the last chosen expert's
                             logit minus the first not chosen's, over the RMS of the logits */
} hotfire_rows;

/*! hotfire_engine_decode() : appends tokens and gives the rows that are wanted; `rows` may be NULL
 *  if none is. All of the batch or nothing of it is done. CONTEXT_FULL: a sequence lacks room.
 *  INTERNAL: the batch's sequences are removed. By default a row's bits depend on its sequence's
 *  tokens alone, however they were batched and cut. */
HOTFIRE_API hotfire_status hotfire_engine_decode(hotfire_engine *engine, const hotfire_batch *batch,
                                                 const hotfire_rows *rows);

/*! hotfire_engine_seq_length() : tokens of a sequence, -1 if there is no such seq_id. */
HOTFIRE_API int64_t hotfire_engine_seq_length(const hotfire_engine *engine, int32_t seq_id);

/*! hotfire_engine_seq_remove() : forgets a sequence's tokens from `pos` on, as if they had never
 *  been. NO_SNAPSHOT: it cannot go back that far, see n_snapshots; 0 can always be done. A position
 *  within a decode's tokens is reached by repeating those before it. */
HOTFIRE_API hotfire_status hotfire_engine_seq_remove(hotfire_engine *engine, int32_t seq_id,
                                                     int64_t pos);

/*! hotfire_engine_seq_copy() : makes `target`, whatever it was, what `source` is. */
HOTFIRE_API hotfire_status hotfire_engine_seq_copy(hotfire_engine *engine, int32_t source,
                                                   int32_t target);

/*! hotfire_engine_seq_save() : writes a sequence's state, without its snapshots, to `saved` of
 *  `size` bytes; `*needed` is how many it takes, and all that is written if `saved` is NULL. It lies
 *  apart from them. */
HOTFIRE_API hotfire_status hotfire_engine_seq_save(hotfire_engine *engine, int32_t seq_id,
                                                   void *saved, uint64_t size, uint64_t *needed);

/*! hotfire_engine_seq_restore() : makes a sequence, whatever it was, what was saved of the same
 *  model with the same kv_type; bytes that are anything else give INVALID_ARGUMENT. What was saved
 *  on another instruction set or in fast arithmetic is taken, and later rows follow from it. */
HOTFIRE_API hotfire_status hotfire_engine_seq_restore(hotfire_engine *engine, int32_t seq_id,
                                                      const void *saved, uint64_t size);

/* What an engine has done since it was made. */
typedef struct hotfire_counters {
    uint32_t struct_size; /* sizeof(hotfire_counters) */
    uint32_t reserved;    /* 0 */
    int64_t n_decodes, n_tokens, n_rows;
    int64_t n_pieces;          /* of at most n_ubatch tokens */
    int64_t n_tokens_repeated; /* to go back to a position within a decode's tokens */
    int64_t n_removes, n_copies, n_saves, n_restores;
} hotfire_counters;

/*! hotfire_engine_counters() : fills in `counters`, whose struct_size is set. */
HOTFIRE_API hotfire_status hotfire_engine_counters(const hotfire_engine *engine,
                                                   hotfire_counters *counters);

/* ---- Layout ------------------------------------------------------------------------------- */

typedef enum hotfire_layout_kind {
    HOTFIRE_LAYOUT_RECORD = 0,  /* offset: 0, size: sizeof(record) */
    HOTFIRE_LAYOUT_FIELD = 1,   /* offset and size of `member` in bytes */
    HOTFIRE_LAYOUT_CONSTANT = 2 /* offset: the value of `member`, size: sizeof(enum) */
} hotfire_layout_kind;

typedef struct hotfire_layout_entry {
    const char *name;   /* of the struct or enum */
    const char *member; /* of the field or constant; "" for a record */
    int64_t offset;
    uint64_t size;
    uint32_t kind;      /* enum hotfire_layout_kind */
    uint32_t reserved;  /* 0 */
} hotfire_layout_entry;

/*! hotfire_layout() : what the compiler made of every struct and enum of this header, entry `index`
 *  or NULL past the last. The entries live as long as the library. */
HOTFIRE_API const hotfire_layout_entry *hotfire_layout(uint64_t index);

#ifdef __cplusplus
}
#endif

#endif
