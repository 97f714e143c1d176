#include "check.hpp"
#include "context.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace hotfire {

static constexpr uintptr_t WORKSPACE_ALIGNMENT = 64;

static uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

Check::Check(const hotfire_exec *exec) {
    if (!exec) {
        status_ = HOTFIRE_STATUS_INVALID_ARGUMENT;
        return;
    }
    if (exec->struct_size != sizeof *exec) {
        status_ = HOTFIRE_STATUS_ABI_MISMATCH; // the context cannot be told: no other field is read
        return;
    }
    context_ = exec->context;
    if (!context_)
        status_ = HOTFIRE_STATUS_INVALID_ARGUMENT;
    else if (exec->flags)
        fail("exec.flags is %" PRIu32 "; expected 0", exec->flags);
    else if (exec->stream)
        fail("exec.stream is %p; expected NULL on the CPU", exec->stream);
    else if (!exec->workspace && exec->workspace_size)
        fail("exec.workspace is NULL; expected %" PRIu64 " bytes", exec->workspace_size);
    else if (address(exec->workspace) % WORKSPACE_ALIGNMENT)
        fail("exec.workspace is %p; expected a multiple of %d bytes", exec->workspace,
             static_cast<int>(WORKSPACE_ALIGNMENT));
}

Check &Check::size(const char *name, int64_t value, int64_t multiple_of) {
    if (ok() && value < 0)
        fail("%s is %" PRId64 "; expected 0 or more", name, value);
    if (ok() && value % multiple_of)
        fail("%s is %" PRId64 "; expected a multiple of %" PRId64, name, value, multiple_of);
    return *this;
}

Check &Check::positive(const char *name, float value) {
    if (ok() && !(value > 0 && value <= __FLT_MAX__))
        fail("%s is %g; expected a finite number above 0", name, static_cast<double>(value));
    return *this;
}

Check &Check::operand(Operand operand, std::initializer_list<int64_t> shape) {
    if (!ok() || !measure(operand, shape) || operand.n_bytes == 0)
        return *this;
    const uintptr_t begin = address(operand.data);
    uintptr_t end;
    if (!operand.data)
        fail("%s is NULL; expected %" PRIu64 " bytes", operand.name, operand.n_bytes);
    else if (begin % operand.alignment)
        fail("%s is %p; expected a multiple of %" PRIu64 " bytes", operand.name, operand.data,
             operand.alignment);
    else if (__builtin_add_overflow(begin, operand.n_bytes, &end))
        fail("%s is %p; expected %" PRIu64 " bytes from there", operand.name, operand.data,
             operand.n_bytes);
    else if (n_operands_ == MAX_OPERANDS)
        status_ = HOTFIRE_STATUS_INTERNAL; // an entry point with more operands: raise the limit
    else
        check_overlap(operand);
    if (ok()) {
        operands_[n_operands_++] = operand;
        any_output_ |= operand.is_output;
    }
    return *this;
}

// Sets n_bytes. An empty axis makes the operand empty, however long the others are.
bool Check::measure(Operand &operand, std::initializer_list<int64_t> shape) {
    for (int64_t length : shape)
        if (length == 0)
            return true;
    int64_t n_bytes = static_cast<int64_t>(operand.element_size);
    const int64_t *innermost = shape.end() - 1;
    for (const int64_t *length = shape.begin(); length != shape.end(); ++length) {
        const int64_t n = length == innermost ? *length / operand.block_len : *length;
        if (__builtin_mul_overflow(n_bytes, n, &n_bytes)) {
            fail("%s has more bytes than 64 bits count; expected smaller sizes", operand.name);
            return false;
        }
    }
    operand.n_bytes = static_cast<uint64_t>(n_bytes);
    return true;
}

void Check::check_overlap(const Operand &operand) {
    const uintptr_t begin = address(operand.data), end = begin + operand.n_bytes;
    for (const Operand *other = operands_; other != operands_ + n_operands_ && ok(); ++other) {
        const uintptr_t other_begin = address(other->data);
        const bool apart = end <= other_begin || other_begin + other->n_bytes <= begin;
        const bool in_place = operand.data == operand.in_place && operand.data == other->data &&
                              operand.n_bytes == other->n_bytes && !other->is_output;
        if (apart || in_place || !(operand.is_output || other->is_output))
            continue;
        fail("%s at %p overlaps %s at %p; expected %s", operand.name, operand.data, other->name,
             other->data,
             operand.in_place == other->data ? "separate memory, or exactly the same"
                                             : "separate memory");
    }
}

hotfire_isa Check::isa() const { return context_->isa; }

void Check::fail(const char *format, ...) {
    status_ = HOTFIRE_STATUS_INVALID_ARGUMENT;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(context_->error, sizeof context_->error, format, arguments);
    va_end(arguments);
}

} // namespace hotfire
