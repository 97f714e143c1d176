// What the forms of the gated delta rule share: the call, one head's view of it, its checks.
#pragma once

#include "kernel.hpp"

namespace hotfire {

struct DeltaRule {
    const float *q, *k, *v, *gate, *beta;
    const int32_t *seq_start, *has_state;
    float *y, *state;
    float scale;
    int64_t n_tokens, n_seqs, n_k_heads, n_groups, k_dim, v_dim, tiled;
};

} // namespace hotfire

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

// One value head of one sequence; t counts from the sequence's first token of this call.
struct DeltaHead {
    const float *q, *k, *v, *gate, *beta;
    float *y, *state;
    int64_t key_stride, value_stride, gate_stride; // from one token to the next
    int64_t k_dim, v_dim, n_tokens;
    float scale;

    const float *query(int64_t t) const { return q + t * key_stride; }
    const float *key(int64_t t) const { return k + t * key_stride; }
    float log_decay(int64_t t) const { return gate[t * gate_stride]; }
    float rate(int64_t t) const { return beta[t * gate_stride]; }
};

// Value head h of sequence s, which takes key head h mod n_k_heads or h / n_groups.
static DeltaHead delta_head(const DeltaRule &call, int64_t s, int64_t h, bool modulo) {
    const int64_t n_heads = call.n_k_heads * call.n_groups;
    const int64_t first = call.seq_start[s], n_new = call.seq_start[s + 1] - first;
    const int64_t key_head = modulo ? h % call.n_k_heads : h / call.n_groups;
    const int64_t keys = (first * call.n_k_heads + key_head) * call.k_dim;
    const int64_t gates = first * n_heads + h, values = gates * call.v_dim;
    return {call.q + keys,
            call.k + keys,
            call.v + values,
            call.gate + gates,
            call.beta + gates,
            call.y + values,
            call.state + (s * n_heads + h) * call.k_dim * call.v_dim,
            call.n_k_heads * call.k_dim,
            n_heads * call.v_dim,
            n_heads,
            call.k_dim,
            call.v_dim,
            n_new,
            call.scale};
}

// The state that a sequence goes on from: zeros, its own, or in a mutant that of `other`.
static void delta_begin(const DeltaHead &head, bool fresh, const float *other) {
    for (int64_t i = 0; i < head.k_dim * head.v_dim && (fresh || other); ++i)
        head.state[i] = fresh ? 0 : other[i];
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#else

static Check &check_delta_rule(Check &check, const DeltaRule &call) {
    const auto [q, k, v, gate, beta, seq_start, has_state, y, state, scale, n_tokens, n_seqs,
                n_k_heads, n_groups, k_dim, v_dim, tiled] = call;
    return check.within("n_tokens", n_tokens, 0, INT32_MAX)
        .within("n_seqs", n_seqs, 1, INT32_MAX)
        .size("n_k_heads", n_k_heads)
        .size("n_groups", n_groups)
        .size("k_dim", k_dim)
        .size("v_dim", v_dim)
        .within("tiled", tiled, 0, 1)
        .input("q", q, {n_tokens, n_k_heads, k_dim})
        .input("k", k, {n_tokens, n_k_heads, k_dim})
        .input("v", v, {n_tokens, n_k_heads, n_groups, v_dim})
        .input("gate", gate, {n_tokens, n_k_heads, n_groups})
        .input("beta", beta, {n_tokens, n_k_heads, n_groups})
        .input("seq_start", seq_start, {n_seqs + 1})
        .input("has_state", has_state, {n_seqs})
        .output("y", y, {n_tokens, n_k_heads, n_groups, v_dim})
        .output("state", state, {n_seqs, n_k_heads, n_groups, k_dim, v_dim})
        .starts("seq_start", seq_start, n_seqs, n_tokens);
}

static Split split_of(const DeltaRule &call) {
    return {{call.n_seqs, call.n_k_heads, call.n_groups},
            {call.n_tokens, call.k_dim, call.v_dim}};
}

#endif
