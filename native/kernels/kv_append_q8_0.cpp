#define HOTFIRE_OPERATION "kv_append_q8_0"
#include "encode.hpp"
#include "kv_append.hpp"

HOTFIRE_VARIANTS(kv_append_q8_0, const float *x, const int32_t *slot, hotfire_block_q8_0 *cache,
                 int64_t n_tokens, int64_t n_kv, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void kv_append_q8_0(const float *x, const int32_t *slot, hotfire_block_q8_0 *cache, int64_t n_tokens,
                    int64_t n_kv, int64_t n_cols) {
    const auto encode = [](const float *token, hotfire_block_q8_0 *row, int64_t n) {
        for (int64_t i = 0; i < n; i += BLOCK_LEN)
            encode_block(token + i, row + i / BLOCK_LEN);
    };
    kv_append(x, slot, cache, n_tokens, n_kv, n_cols, encode);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_kv_append_q8_0(const hotfire_exec *exec, const float *x,
                                                 const int32_t *slot, hotfire_block_q8_0 *cache,
                                                 int64_t n_tokens, int64_t n_kv, int64_t n_cols) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_kv", n_kv)
        .size("n_cols", n_cols, 32)
        .input("x", x, {n_tokens, n_cols})
        .input("slot", slot, {n_tokens})
        .output("cache", cache, {n_kv, n_cols})
        .run(kv_append_q8_0, x, slot, cache, n_tokens, n_kv, n_cols);
}

#endif
