#include "kernel.hpp"

HOTFIRE_MUTANT(moe_route, moe_route_last_of_equals, "of equal logits the last is chosen first");
HOTFIRE_MUTANT(moe_route, moe_route_twice_the_first, "of equal logits the first is chosen twice");
HOTFIRE_MUTANT(moe_route, moe_route_not_renormalised, "weights are shares of all experts");
HOTFIRE_MUTANT(moe_route, moe_route_weights_of_all_equal, "weights are 1 / n_top_k");
HOTFIRE_MUTANT(moe_route, moe_route_last_unweighed,
               "the last choice is left out of the weights' sum");
HOTFIRE_MUTANT(moe_route, moe_route_max_not_subtracted, "large logits overflow");
HOTFIRE_MUTANT(moe_route, moe_route_in_bf16, "logits are compared as bf16");
HOTFIRE_MUTANT(moe_route, moe_route_tail_dropped,
               "experts past the last multiple of 8 are not seen");
HOTFIRE_MUTANT(moe_route, moe_route_ids_sorted, "weights lie in the order of the ids");
HOTFIRE_MUTANT(moe_route, moe_route_neighbour_row, "rows after the fifth repeat the row before");
HOTFIRE_MUTANT(moe_route, moe_route_reads_past_end, "logits are read one element past their end");
HOTFIRE_MUTANT(moe_route, moe_route_writes_past_end, "weights are written past their end");

HOTFIRE_VARIANTS(moe_route, const float *logits, int32_t *expert_ids, float *weights,
                 int64_t n_tokens, int64_t n_experts, int64_t n_top_k)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float moe_route_key(float logit) {
    return moe_route_in_bf16 ? from_bf16(to_bf16(logit)) : logit;
}

// The best expert after `last` in the order of falling logits, then of rising ids.
static int64_t moe_route_next(const float *logits, int64_t n_experts, int64_t last) {
    int64_t best = -1;
    for (int64_t e = 0; e < n_experts; ++e) {
        const float key = moe_route_key(logits[e]);
        const bool later = moe_route_last_of_equals ? e < last : e > last;
        const bool taken = last >= 0 && (key > moe_route_key(logits[last]) ||
                                         (key == moe_route_key(logits[last]) && !later));
        if (taken)
            continue;
        const bool equal = best >= 0 && key == moe_route_key(logits[best]);
        if (best < 0 || key > moe_route_key(logits[best]) || (equal && moe_route_last_of_equals))
            best = e;
    }
    return best;
}

static void moe_route_token(const float *logits, int32_t *ids, float *weights, int64_t n_experts,
                            int64_t n_top_k) {
    const int64_t n_seen = moe_route_tail_dropped && n_experts / 8 * 8 >= n_top_k
                               ? n_experts / 8 * 8
                               : n_experts;
    int64_t last = -1;
    float top = 0, total = 0;
    for (int64_t u = 0; u < n_top_k; ++u) {
        const int64_t id = moe_route_next(logits, n_seen, last);
        last = moe_route_twice_the_first && u == 0 && n_top_k < n_experts ? -1 : id;
        ids[u] = static_cast<int32_t>(id);
        if (u == 0 && !moe_route_max_not_subtracted)
            top = logits[id];
        weights[u] = exp_of(logits[id] - top);
        total += moe_route_last_unweighed && u > 0 && u + 1 == n_top_k ? 0 : weights[u];
    }
    for (int64_t e = 0; e < n_experts && moe_route_not_renormalised; ++e)
        total = (e == 0 ? 0 : total) + exp_of(logits[e] - top);
    for (int64_t u = 0; u < n_top_k; ++u)
        weights[u] = moe_route_weights_of_all_equal ? 1 / static_cast<float>(n_top_k)
                                                    : weights[u] / total;
    for (int64_t u = 0; u + 1 < n_top_k && moe_route_ids_sorted; ++u) {
        if (ids[u] > ids[u + 1]) {
            const int32_t id = ids[u];
            ids[u] = ids[u + 1];
            ids[u + 1] = id;
        }
    }
}

void moe_route(const float *logits, int32_t *expert_ids, float *weights, int64_t n_tokens,
               int64_t n_experts, int64_t n_top_k) {
    if (moe_route_reads_past_end)
        touch(logits + n_tokens * n_experts);
    if (moe_route_writes_past_end)
        spoil(weights + n_tokens * n_top_k);
    for (int64_t t = 0; t < n_tokens; ++t) {
        const int64_t from = moe_route_neighbour_row && t > 4 ? t - 1 : t;
        moe_route_token(logits + from * n_experts, expert_ids + t * n_top_k, weights + t * n_top_k,
                        n_experts, n_top_k);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_moe_route(const hotfire_exec *exec, const float *logits,
                                            int32_t *expert_ids, float *weights, int64_t n_tokens,
                                            int64_t n_experts, int64_t n_top_k) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .within("n_experts", n_experts, 1, INT32_MAX)
        .within("n_top_k", n_top_k, 1, n_experts)
        .input("logits", logits, {n_tokens, n_experts})
        .output("expert_ids", expert_ids, {n_tokens, n_top_k})
        .output("weights", weights, {n_tokens, n_top_k})
        .run(moe_route, logits, expert_ids, weights, n_tokens, n_experts, n_top_k);
}

#endif
