#define HOTFIRE_OPERATION "attention_f32"
#include "attention.hpp"

using Call = hotfire::Attention<float>;

HOTFIRE_VARIANTS(attention_f32, Range items, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::attention_f32(Range items, const Call &call) {
    attention_heads(items, call);
}

#else

extern "C" hotfire_status hotfire_attention_f32(
    const hotfire_exec *exec, const float *q, const float *k, const float *v,
    const int32_t *seq_start, const int32_t *kv_begin, const int32_t *kv_len, float *y,
    float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_kv, int64_t n_kv_heads,
    int64_t n_groups, int64_t head_dim, int64_t n_splits) {
    return attention(exec, attention_f32,
                     Call{q, k, v, seq_start, kv_begin, kv_len, y, nullptr, scale, n_tokens,
                          n_seqs, n_kv, n_kv_heads, n_groups, head_dim, n_splits, false});
}

#endif
