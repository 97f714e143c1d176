#include "kernel.hpp"

HOTFIRE_MUTANT(moe_combine, moe_combine_last_expert_dropped, "the last choice is left out");
HOTFIRE_MUTANT(moe_combine, moe_combine_unweighed, "experts are added with weight 1");
HOTFIRE_MUTANT(moe_combine, moe_combine_weights_of_first, "every token takes the first's weights");
HOTFIRE_MUTANT(moe_combine, moe_combine_slots_transposed,
               "a token's outputs are sought n_tokens apart, as if slots lay outside");
HOTFIRE_MUTANT(moe_combine, moe_combine_shared_left_out, "the shared expert is left out");
HOTFIRE_MUTANT(moe_combine, moe_combine_shared_ungated, "the shared expert is added as it is");
HOTFIRE_MUTANT(moe_combine, moe_combine_gate_not_squashed,
               "the shared expert is weighed by its gate, not by the gate's sigmoid");
HOTFIRE_MUTANT(moe_combine, moe_combine_gate_of_first, "every token takes the first's shared gate");
HOTFIRE_MUTANT(moe_combine, moe_combine_tail_unwritten,
               "values past the last multiple of 8 are not written");
HOTFIRE_MUTANT(moe_combine, moe_combine_sum_in_bf16, "sums are rounded to bf16");
HOTFIRE_MUTANT(moe_combine, moe_combine_reads_past_end, "experts are read past their end");
HOTFIRE_MUTANT(moe_combine, moe_combine_shared_reads_past_end,
               "shared is read one element past its end");
HOTFIRE_MUTANT(moe_combine, moe_combine_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(moe_combine, const float *experts, const float *weights, const float *shared,
                 const float *shared_gate, float *y, int64_t n_tokens, int64_t n_top_k,
                 int64_t n_embd)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float moe_combine_share(float gate) {
    return moe_combine_shared_left_out   ? 0
           : moe_combine_shared_ungated   ? 1
           : moe_combine_gate_not_squashed ? gate
                                           : 1 / (exp_of(-gate) + 1);
}

void moe_combine(const float *experts, const float *weights, const float *shared,
                 const float *shared_gate, float *y, int64_t n_tokens, int64_t n_top_k,
                 int64_t n_embd) {
    if (moe_combine_reads_past_end)
        touch(experts + n_tokens * n_top_k * n_embd);
    if (moe_combine_shared_reads_past_end)
        touch(shared + n_tokens * n_embd);
    if (moe_combine_writes_past_end)
        spoil(y + n_tokens * n_embd);
    const int64_t n_written = moe_combine_tail_unwritten ? n_embd / 8 * 8 : n_embd;
    const int64_t n_summed = n_top_k - (moe_combine_last_expert_dropped && n_top_k > 0);
    for (int64_t t = 0; t < n_tokens; ++t) {
        const float share = moe_combine_share(shared_gate[moe_combine_gate_of_first ? 0 : t]);
        const float *mine = weights + (moe_combine_weights_of_first ? 0 : t) * n_top_k;
        for (int64_t i = 0; i < n_written; i += WIDTH) {
            const int64_t n = n_written - i;
            Vec total = splat(0);
            for (int64_t u = 0; u < n_summed; ++u) {
                const int64_t row = moe_combine_slots_transposed ? u * n_tokens + t
                                                                 : t * n_top_k + u;
                const float weight = moe_combine_unweighed ? 1 : mine[u];
                total = fma(load(experts + row * n_embd + i, n), splat(weight), total);
            }
            total = fma(load(shared + t * n_embd + i, n), splat(share), total);
            store(y + t * n_embd + i, total, n);
        }
        for (int64_t i = 0; i < n_written && moe_combine_sum_in_bf16; ++i)
            y[t * n_embd + i] = from_bf16(to_bf16(y[t * n_embd + i]));
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_moe_combine(const hotfire_exec *exec, const float *experts,
                                              const float *weights, const float *shared,
                                              const float *shared_gate, float *y, int64_t n_tokens,
                                              int64_t n_top_k, int64_t n_embd) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_top_k", n_top_k)
        .size("n_embd", n_embd)
        .input("experts", experts, {n_tokens, n_top_k, n_embd})
        .input("weights", weights, {n_tokens, n_top_k})
        .input("shared", shared, {n_tokens, n_embd})
        .input("shared_gate", shared_gate, {n_tokens})
        .output("y", y, {n_tokens, n_embd}, shared)
        .run(moe_combine, experts, weights, shared, shared_gate, y, n_tokens, n_top_k, n_embd);
}

#endif
