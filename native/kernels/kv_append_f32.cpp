#define HOTFIRE_OPERATION "kv_append_f32"
#include "kv_append.hpp"

HOTFIRE_VARIANTS(kv_append_f32, const float *x, const int32_t *slot, float *cache,
                 int64_t n_tokens, int64_t n_kv, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void kv_append_f32(const float *x, const int32_t *slot, float *cache, int64_t n_tokens,
                   int64_t n_kv, int64_t n_cols) {
    const auto encode = [](const float *token, float *row, int64_t n) {
        for (int64_t i = 0; i < n; i += WIDTH)
            store(row + i, load(token + i, n - i), n - i);
    };
    kv_append(x, slot, cache, n_tokens, n_kv, n_cols, encode);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_kv_append_f32(const hotfire_exec *exec, const float *x,
                                                const int32_t *slot, float *cache,
                                                int64_t n_tokens, int64_t n_kv, int64_t n_cols) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_kv", n_kv)
        .size("n_cols", n_cols)
        .input("x", x, {n_tokens, n_cols})
        .input("slot", slot, {n_tokens})
        .output("cache", cache, {n_kv, n_cols})
        .run(kv_append_f32, x, slot, cache, n_tokens, n_kv, n_cols);
}

#endif
