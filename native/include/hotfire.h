/*
 * hotfire.h: the C interface of the hotfire reference library, ABI version 1.
 *
 * Introduction
 *   The library computes the operations that an LLM engine is made of. Every function is plain C11,
 *   takes fixed-width types, returns a hotfire_status and throws nothing. The kernels themselves
 *   are declared in hotfire_kernels.h, which is written from the operations' specs.
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
 *   hotfire_context_error() then says in words what was expected and what came.
 *
 * Threads
 *   A context may be used by one thread at a time. Contexts share nothing that changes.
 *
 * Memory
 *   The caller owns every buffer. The library reads exactly the inputs and writes exactly the
 *   outputs, of the extent that the kernel's comment gives; not one byte before or after.
 *   Alignment: each buffer is aligned to its element (4 bytes for float, 2 for a quantised block);
 *   a misaligned one is refused. No kernel asks for more.
 *   Aliasing: an output may not overlap an input or another output, unless the kernel's comment
 *   says "in place": then it may be exactly the named input, never a shifted part of it.
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
    HOTFIRE_STATUS_INTERNAL = 5          /* a fault of the library; please report it */
} hotfire_status;

/*! hotfire_status_name() : the name of a status, "unknown" for a number that is none. */
HOTFIRE_API const char *hotfire_status_name(hotfire_status status);

/* ---- Instruction sets --------------------------------------------------------------------- */

typedef enum hotfire_isa {
    HOTFIRE_ISA_AUTO = 0, /* the widest that this machine has */
    HOTFIRE_ISA_SCALAR = 1,
    HOTFIRE_ISA_AVX2 = 2,  /* with FMA and F16C */
    HOTFIRE_ISA_AVX512 = 3 /* F, BW, DQ and VL, over what AVX2 asks for */
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
} hotfire_context_params;

/*! hotfire_context_create() : makes a context; `*context` is untouched unless the status is OK. */
HOTFIRE_API hotfire_status hotfire_context_create(const hotfire_context_params *params,
                                                  hotfire_context **context);

/*! hotfire_context_free() : frees a context; NULL is allowed. */
HOTFIRE_API void hotfire_context_free(hotfire_context *context);

/*! hotfire_context_isa() : the instruction set that the context's kernels run, never AUTO. */
HOTFIRE_API hotfire_isa hotfire_context_isa(const hotfire_context *context);

/*! hotfire_context_error() : what was wrong with the last call that failed on this context, ""
 *  if none has. The text lives until the next call on the context. */
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
