// The innermost step of every product of a weight row and a column: a vector of columns or a block.
#pragma once

#include "kernel.hpp"

HOTFIRE_FAMILY_MUTANT(chain_dropped, "of the sums that fast arithmetic keeps the last is left out");

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

template <class T> inline constexpr int64_t STEP = VALUES<T> == 1 ? WIDTH : VALUES<T>;

struct Block {
    Codes codes;
    float scale;
};

// What one step needs of a weight row, n being the values that remain.
static inline Vec decode(const float *weight, int64_t n) { return load(weight, n); }
static inline Vec decode(const uint16_t *weight, int64_t n) { return widen(weight, n); }
template <class T> static inline Block decode(const T *weight, int64_t) {
    return {codes(*weight), to_f32(weight->d)};
}

static inline Vec multiply_add(Vec weight, const float *x, int64_t n, Vec sums) {
    return fma(weight, load(x, n), sums);
}

// The product of two f16 scales is exact in f32, and so is a lane of dot: one rounding a block.
static inline Vec multiply_add(const Block &weight, const hotfire_block_q8_0 *x, int64_t,
                               Vec sums) {
    return fma(dot(weight.codes, codes(*x)), splat(weight.scale * to_f32(x->d)), sums);
}

// A row times a column. With one chain the order of the sum is that of every kernel in default
// arithmetic; several chains, which are added at the end, do not wait for one another.
template <int CHAINS, class Weight, class X>
static float product(const Weight *row, const X *x, int64_t n_cols) {
    Vec sums[CHAINS];
    for (Vec &chain : sums)
        chain = splat(0);
    for (int64_t k = 0; k < n_cols; k += CHAINS * STEP<Weight>)
        for (int64_t c = 0, at = k; c < CHAINS && at < n_cols; ++c, at += STEP<Weight>)
            sums[c] = multiply_add(decode(row + elements<Weight>(at), n_cols - at),
                                   x + elements<X>(at), n_cols - at, sums[c]);
    for (int c = 1; c < CHAINS - chain_dropped; ++c)
        sums[0] = sums[0] + sums[c];
    return sum(sums[0]);
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
