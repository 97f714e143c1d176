// One head's view of the operands that the forms of the gated delta rule share.
#pragma once

#include "kernel.hpp"

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

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
