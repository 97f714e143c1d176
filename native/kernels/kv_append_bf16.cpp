#define HOTFIRE_OPERATION "kv_append_bf16"
#include "kv_append.hpp"

HOTFIRE_FAMILY_MUTANT(rounds_down, "values are cut to bf16, not rounded");
HOTFIRE_FAMILY_MUTANT(half_away, "halves are rounded away from zero, not to even");

HOTFIRE_VARIANTS(kv_append_bf16, const float *x, const int32_t *slot, uint16_t *cache,
                 int64_t n_tokens, int64_t n_kv, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static uint16_t kv_append_bf16_value(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    if (rounds_down)
        return static_cast<uint16_t>(bits >> 16);
    return half_away ? static_cast<uint16_t>((bits + 0x8000) >> 16) : to_bf16(value);
}

void kv_append_bf16(const float *x, const int32_t *slot, uint16_t *cache, int64_t n_tokens,
                    int64_t n_kv, int64_t n_cols) {
    const auto encode = [](const float *token, uint16_t *row, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
            row[i] = kv_append_bf16_value(token[i]);
    };
    kv_append(x, slot, cache, n_tokens, n_kv, n_cols, encode);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_kv_append_bf16(const hotfire_exec *exec, const float *x,
                                                 const int32_t *slot, uint16_t *cache,
                                                 int64_t n_tokens, int64_t n_kv, int64_t n_cols) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_kv", n_kv)
        .size("n_cols", n_cols)
        .input("x", x, {n_tokens, n_cols})
        .input("slot", slot, {n_tokens})
        .output("cache", cache, {n_kv, n_cols})
        .run(kv_append_bf16, x, slot, cache, n_tokens, n_kv, n_cols);
}

#endif
