#include "check.hpp"
#include "context.hpp"
#include "mutant.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

HOTFIRE_MUTANT(matvec_f32, matvec_f32_last_part_dropped,
               "the last part of a call that is split over threads is not computed");

// What only a sanitizer can see; of no operation, so that the suites do not hunt them.
HOTFIRE_MUTANT(sanitizers, threads_parts_overlap, "parts share an item, which two threads write");
HOTFIRE_MUTANT(sanitizers, threads_array_overrun, "a byte past a local array is written");
HOTFIRE_MUTANT(sanitizers, threads_sum_overflow, "a signed sum is larger than its type holds");

namespace hotfire {

static constexpr uintptr_t WORKSPACE_ALIGNMENT = 64;

static uintptr_t address(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

Check::Check(const hotfire_exec *exec) {
    if (!exec) {
        fail("exec is NULL");
        return;
    }
    if (exec->struct_size != sizeof *exec) {
        fail("exec.struct_size is %" PRIu32 "; expected %zu", exec->struct_size, sizeof *exec);
        status_ = HOTFIRE_STATUS_ABI_MISMATCH; // the context cannot be told: no other field is read
        return;
    }
    context_ = exec->context;
    if (!context_)
        fail("exec.context is NULL");
    else if (context_->pool && context_->pool->is_lost())
        refuse_lost();
    else if (exec->flags & ~static_cast<uint32_t>(HOTFIRE_EXEC_FAST))
        fail("exec.flags is %" PRIu32 "; expected 0 or HOTFIRE_EXEC_FAST", exec->flags);
    else if (exec->stream)
        fail("exec.stream is %p; expected NULL on the CPU", exec->stream);
    else if (!exec->workspace && exec->workspace_size)
        fail("exec.workspace is NULL; expected %" PRIu64 " bytes", exec->workspace_size);
    else if (address(exec->workspace) % WORKSPACE_ALIGNMENT)
        fail("exec.workspace is %p; expected a multiple of %d bytes", exec->workspace,
             static_cast<int>(WORKSPACE_ALIGNMENT));
    fast_ = exec->flags & HOTFIRE_EXEC_FAST;
    workspace_ = exec->workspace;
    workspace_size_ = exec->workspace_size;
}

void Check::refuse_lost() {
    fail("the context's threads were started before a fork; expected a context of this process");
    status_ = HOTFIRE_STATUS_UNSUPPORTED;
}

Check &Check::size(const char *name, int64_t value, int64_t multiple_of) {
    if (ok() && value < 0)
        fail("%s is %" PRId64 "; expected 0 or more", name, value);
    if (ok() && value % multiple_of)
        fail("%s is %" PRId64 "; expected a multiple of %" PRId64, name, value, multiple_of);
    return *this;
}

Check &Check::within(const char *name, int64_t value, int64_t least, int64_t most) {
    if (ok() && (value < least || value > most))
        fail("%s is %" PRId64 "; expected %" PRId64 " to %" PRId64, name, value, least, most);
    return *this;
}

Check &Check::starts(const char *name, const int32_t *starts, int64_t n_seqs, int64_t n_tokens) {
    if (ok() && starts[0] != 0)
        fail("%s[0] is %" PRId32 "; expected 0", name, starts[0]);
    for (int64_t s = 0; s < n_seqs && ok(); ++s)
        if (starts[s + 1] < starts[s])
            fail("%s[%" PRId64 "] is %" PRId32 "; expected at least %" PRId32, name, s + 1,
                 starts[s + 1], starts[s]);
    if (ok() && starts[n_seqs] != n_tokens)
        fail("%s[%" PRId64 "] is %" PRId32 "; expected %" PRId64, name, n_seqs, starts[n_seqs],
             n_tokens);
    return *this;
}

Check &Check::ranges(const char *name, const int32_t *begin, const int32_t *length,
                     const int32_t *starts, int64_t n_seqs, int64_t n_rows) {
    for (int64_t s = 0; s < n_seqs && ok(); ++s) {
        const int32_t n_tokens = starts[s + 1] - starts[s];
        if (begin[s] < 0 || length[s] < n_tokens || n_rows - begin[s] < length[s])
            fail("%s: sequence %" PRId64 " has %" PRId32 " rows from %" PRId32
                 "; expected at least %" PRId32 " within 0 to %" PRId64,
                 name, s, length[s], begin[s], n_tokens, n_rows);
    }
    return *this;
}

Check &Check::workspace(std::initializer_list<int64_t> factors) {
    Operand needed{"exec.workspace", workspace_, 1, 1, 1, {}, true};
    if (!ok() || !measure(needed, factors) || needed.n_bytes == 0)
        return *this;
    if (workspace_size_ < needed.n_bytes)
        fail("exec.workspace_size is %" PRIu64 "; expected at least %" PRIu64, workspace_size_,
             needed.n_bytes);
    const bool any_output = any_output_;
    operand(needed, factors);
    any_output_ = any_output;
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
    const Stride stride = operand.stride;
    const int64_t width = *(shape.end() - 1);
    if (stride.name && stride.value < width) {
        fail("%s is %" PRId64 "; expected at least %" PRId64, stride.name, stride.value, width);
        return false;
    }
    for (int64_t length : shape)
        if (length == 0)
            return true;
    int64_t n_bytes = static_cast<int64_t>(operand.element_size);
    const int64_t *innermost = shape.end() - 1;
    bool fits = true;
    for (const int64_t *length = shape.begin(); length != innermost; ++length)
        fits &= !__builtin_mul_overflow(n_bytes, *length, &n_bytes);
    fits &= !__builtin_mul_overflow(n_bytes, stride.name ? stride.value : width / operand.block_len,
                                    &n_bytes);
    if (!fits) {
        fail("%s has more bytes than 64 bits count; expected smaller sizes", operand.name);
        return false;
    }
    const int64_t behind = stride.name ? stride.value - width : 0; // the last row
    operand.n_bytes = static_cast<uint64_t>(n_bytes) -
                      static_cast<uint64_t>(behind) * operand.element_size;
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

// The least that a part is worth, some microseconds. The library with mutants splits any call, so
// that the suites' small cases are split too.
#ifdef HOTFIRE_WITH_MUTANTS
static constexpr bool SPLITS_ALL = true;
#else
static constexpr bool SPLITS_ALL = false;
#endif
static constexpr double LEAST_COST = SPLITS_ALL ? 0 : 1 << 16;

// Sizes of a call that is refused may overflow; it is not split.
Split::Split(std::initializer_list<int64_t> items, std::initializer_list<int64_t> costs,
             int64_t unit)
    : unit(SPLITS_ALL && unit != WHOLE ? 1 : unit) {
    for (int64_t size : items)
        (void)__builtin_mul_overflow(n_items, size, &n_items);
    for (int64_t size : costs)
        cost *= static_cast<double>(size);
}

// Parts that a thread gets on average: one that is held up leaves the rest to the others.
static constexpr int64_t PARTS_A_THREAD = 4;

static int64_t count_parts(const Split &split, int64_t n_threads) {
    const int64_t n_units = (split.n_items + split.unit - 1) / split.unit;
    const double n_worth = split.cost * static_cast<double>(split.n_items) / LEAST_COST;
    const int64_t n_most = std::min(n_units, PARTS_A_THREAD * n_threads);
    return n_worth < static_cast<double>(n_most) ? static_cast<int64_t>(n_worth) : n_most;
}

static void overrun() {
    char bytes[8];
    char *volatile at = bytes; // UBSan, which would report it first, must not know the array
    volatile int past = sizeof bytes;
    at[past] = 0;
}

static void overflow() {
    volatile int32_t largest = INT32_MAX;
    largest = largest + 1;
}

void Check::in_parts(const Split &split, void (*some)(const void *, Range), const void *job) const {
    if (threads_array_overrun)
        overrun();
    if (threads_sum_overflow)
        overflow();
    const int64_t n_parts = context_->n_threads > 1 ? count_parts(split, context_->n_threads) : 1;
    if (n_parts > 1 && !context_->pool)
        context_->pool = Pool::start(context_->n_threads);
    if (n_parts <= 1 || !context_->pool)
        return some(job, {0, split.n_items});
    const auto part = [&](int64_t i) {
        const int64_t n_units = (split.n_items + split.unit - 1) / split.unit;
        const int64_t begin = n_units * i / n_parts * split.unit;
        const int64_t end = (n_units * (i + 1) / n_parts + threads_parts_overlap) * split.unit;
        some(job, {begin, std::min(end, split.n_items)});
    };
    context_->pool->run([](const void *each, int64_t i) {
        (*static_cast<const decltype(part) *>(each))(i);
    }, &part, n_parts - matvec_f32_last_part_dropped);
}

void Check::fail(const char *format, ...) {
    status_ = HOTFIRE_STATUS_INVALID_ARGUMENT;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(error_text(context_), ERROR_SIZE, format, arguments);
    va_end(arguments);
}

} // namespace hotfire
