#define HOTFIRE_OPERATION "attention_bf16"
#include "attention.hpp"

HOTFIRE_VARIANTS(attention_bf16, Range tokens, const float *q, const uint16_t *k, const uint16_t *v,
                 const int32_t *seq_start, const int32_t *kv_begin, const int32_t *kv_len, float *y,
                 float *workspace, float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_kv,
                 int64_t n_kv_heads, int64_t n_groups, int64_t head_dim, int64_t n_splits,
                 bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void attention_bf16(Range tokens, const float *q, const uint16_t *k, const uint16_t *v, const int32_t *seq_start,
                    const int32_t *kv_begin, const int32_t *kv_len, float *y, float *workspace,
                    float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_kv,
                    int64_t n_kv_heads, int64_t n_groups, int64_t head_dim, int64_t n_splits,
                    bool fast) {
    Attention<uint16_t>{q,      k,         v,          seq_start, kv_begin, kv_len, y,
                    workspace, scale, n_tokens, n_seqs,    n_kv,   n_kv_heads, n_groups,
                    head_dim, n_splits, fast}
        .run(tokens);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status
hotfire_attention_bf16(const hotfire_exec *exec, const float *q, const uint16_t *k, const uint16_t *v,
    const int32_t *seq_start, const int32_t *kv_begin, const int32_t *kv_len, float *y,
    float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_kv, int64_t n_kv_heads,
    int64_t n_groups, int64_t head_dim, int64_t n_splits) {
    Check check(exec);
    return check.within("n_tokens", n_tokens, 0, n_kv)
        .within("n_seqs", n_seqs, 1, INT32_MAX)
        .within("n_kv", n_kv, 0, INT32_MAX)
        .size("n_kv_heads", n_kv_heads)
        .size("n_groups", n_groups)
        .size("head_dim", head_dim)
        .within("head_dim", head_dim, 0, INT32_MAX)
        .within("n_splits", n_splits, 1, 65536)
        .input("q", q, {n_tokens, n_kv_heads, n_groups, head_dim})
        .input("k", k, {n_kv, n_kv_heads, head_dim})
        .input("v", v, {n_kv, n_kv_heads, head_dim})
        .input("seq_start", seq_start, {n_seqs + 1})
        .input("kv_begin", kv_begin, {n_seqs})
        .input("kv_len", kv_len, {n_seqs})
        .output("y", y, {n_tokens, n_kv_heads, n_groups, head_dim})
        .starts("seq_start", seq_start, n_seqs, n_tokens)
        .ranges("kv_begin, kv_len", kv_begin, kv_len, seq_start, n_seqs, n_kv)
        .workspace({4, n_splits, head_dim + 2})
        .run({{n_tokens}, {n_kv, n_kv_heads, n_groups, head_dim}, check.fast() ? INT32_MAX : 1}, attention_bf16, q, k, v, seq_start, kv_begin, kv_len, y,
             check.scratch<float>(), scale, n_tokens, n_seqs, n_kv, n_kv_heads,
             n_groups, head_dim, n_splits, check.fast());
}

#endif
