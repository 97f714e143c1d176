// What every function of the C interface does first and last: it checks what it was given, and what
// is thrown inside becomes a status and the context's text.
#pragma once

#include "context.hpp"
#include "model.hpp"

#include <cinttypes>
#include <initializer_list>
#include <new>
#include <span>

namespace hotfire::engine {

// The text may quote a file: what is not printable ASCII becomes a question mark.
inline hotfire_status refuse(hotfire_context *context, hotfire_status status, const char *text) {
    char *error = error_text(context);
    std::snprintf(error, ERROR_SIZE, "%s", text);
    for (char *each = error; *each; ++each)
        if (*each < ' ' || *each > '~')
            *each = '?';
    return status;
}

// Runs `body`; what it throws becomes the status, and the context's text, or the thread's for NULL.
template <class Body> hotfire_status guarded(hotfire_context *context, Body body) {
    try {
        body();
        return HOTFIRE_STATUS_OK;
    } catch (const Failure &failure) {
        return refuse(context, failure.status, failure.text);
    } catch (const std::bad_alloc &) {
        return refuse(context, HOTFIRE_STATUS_OUT_OF_MEMORY, "no memory is left");
    } catch (...) {
        return refuse(context, HOTFIRE_STATUS_INTERNAL, "an unknown exception");
    }
}

template <class T> void check_given(const char *name, const T *given) {
    if (!given)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "%s is NULL", name);
    if (reinterpret_cast<uintptr_t>(given) % alignof(T))
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "%s is %p; expected a multiple of %zu bytes", name,
             static_cast<const void *>(given), alignof(T));
}

template <class T> void check_optional(const char *name, const T *given) {
    if (given)
        check_given(name, given);
}

template <class Struct> void check_struct(const char *name, const Struct *given) {
    check_given(name, given);
    if (given->struct_size != sizeof *given)
        fail(HOTFIRE_STATUS_ABI_MISMATCH, "%s.struct_size is %" PRIu32 "; expected %zu", name,
             given->struct_size, sizeof *given);
}

inline void check_process(const hotfire_context &context, const Model &model) {
    if (!model.same_process())
        fail(HOTFIRE_STATUS_UNSUPPORTED,
             "this process was forked after the model was opened; open it in the process that "
             "uses it");
    if (context.pool && context.pool->is_lost())
        fail(HOTFIRE_STATUS_UNSUPPORTED,
             "the context's threads were started before a fork; expected one of this process");
}

// Memory of the caller's that a call reads or writes; NULL is none, and so is what has no bytes.
struct Extent {
    const char *name;
    const void *data;
    uint64_t n, each; // n times `each` bytes
    bool is_output = false;
};

// An output overlaps nothing, and nothing goes past the last address.
inline void check_apart(std::initializer_list<Extent> extents) {
    const auto begin = [](const Extent &e) { return reinterpret_cast<uintptr_t>(e.data); };
    for (const Extent &one : extents) {
        uint64_t n_bytes, end;
        if (__builtin_mul_overflow(one.n, one.each, &n_bytes) ||
            __builtin_add_overflow(begin(one), n_bytes, &end))
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
                 "%s is %p; expected %" PRIu64 " times %" PRIu64 " bytes from there", one.name,
                 one.data, one.n, one.each);
        for (const Extent &other : std::span(extents.begin(), &one)) {
            const uint64_t n_other = other.n * other.each;
            const bool any = one.data && other.data && n_bytes && n_other;
            const bool apart = end <= begin(other) || begin(other) + n_other <= begin(one);
            if (any && !apart && (one.is_output || other.is_output))
                fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
                     "%s at %p overlaps %s at %p; expected separate memory", one.name, one.data,
                     other.name, other.data);
        }
    }
}

inline void in_range(const char *name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "%s %" PRId64 "; expected %" PRId64 " to %" PRId64,
             name, value, least, most);
}

} // namespace hotfire::engine
