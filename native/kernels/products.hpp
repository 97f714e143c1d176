// The innermost step of every product of a weight row and a column: a vector of columns or a block.
#pragma once

#include "kernel.hpp"

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

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

} // namespace hotfire::HOTFIRE_ISA

#endif
