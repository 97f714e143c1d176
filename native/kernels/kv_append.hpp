// What the kernels that write into a cache share: which row each token goes to.
#pragma once

#include "kernel.hpp"

HOTFIRE_FAMILY_MUTANT(slots_counted, "rows are counted on from the first token's, not read");
HOTFIRE_FAMILY_MUTANT(slot_off_by_one, "every token lies one row too early");
HOTFIRE_FAMILY_MUTANT(invalid_goes_first, "a token without a row overwrites row 0");
HOTFIRE_FAMILY_MUTANT(invalid_goes_last, "a token whose row is too large overwrites the last");
HOTFIRE_FAMILY_MUTANT(first_of_equals, "of tokens with the same row the first stays");
HOTFIRE_FAMILY_MUTANT(clears_cache, "rows that no token names are cleared");
HOTFIRE_FAMILY_MUTANT(neighbour_token, "tokens past the first are written as the one before");
HOTFIRE_FAMILY_MUTANT(last_values_dropped, "the last 32 values of a row are not written");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "x is read one element past its end");
HOTFIRE_FAMILY_MUTANT(slot_reads_past_end, "slot is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "cache is written one element past its end");

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static int64_t kv_append_row(const int32_t *slot, int64_t t, int64_t n_kv) {
    const int64_t row = slots_counted ? slot[0] + t : slot[t] - slot_off_by_one;
    if (row < 0)
        return invalid_goes_first ? 0 : -1;
    return row < n_kv ? row : invalid_goes_last ? n_kv - 1 : -1;
}

// `encode` stores n values of a token as a row.
template <class T, class Encode>
static void kv_append(const float *x, const int32_t *slot, T *cache, int64_t n_tokens,
                      int64_t n_kv, int64_t n_cols, Encode encode) {
    if (reads_past_end)
        touch(x + n_tokens * n_cols);
    if (slot_reads_past_end)
        touch(slot + n_tokens);
    if (writes_past_end)
        spoil(cache + n_kv * elements<T>(n_cols));
    if (clears_cache)
        __builtin_memset(static_cast<void *>(cache), 0,
                         static_cast<uint64_t>(n_kv * elements<T>(n_cols)) * sizeof(T));
    const int64_t n_written = last_values_dropped && n_cols > 32 ? n_cols - 32 : n_cols;
    for (int64_t i = 0; i < n_tokens; ++i) {
        const int64_t t = first_of_equals ? n_tokens - 1 - i : i;
        const int64_t row = kv_append_row(slot, t, n_kv);
        const float *token = x + (neighbour_token && t > 0 ? t - 1 : t) * n_cols;
        if (row >= 0)
            encode(token, cache + row * elements<T>(n_cols), n_written);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#endif
