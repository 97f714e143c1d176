// The few vector operations that kernels are written in, in the namespace of the instruction set.
//
// HOTFIRE_SIMD is the file of that set. It gives
//
//     Vec                       WIDTH floats; + - * / work lane by lane, also with a float
//     Vec splat(f)              f in each lane
//     Vec load(p)               WIDTH floats
//     Vec load(p, n, fill)      the first n; lanes beyond hold fill, and memory there is not read
//     void store(p, v)          WIDTH floats
//     void store(p, v, n)       the first n; memory beyond is not written
//     Vec fma(a, b, c)          a * b + c, rounded once where the set has it
//     Vec max(a, b), abs(v)
//     Vec round_away(v)         to the nearest whole number, halves away from zero, like roundf;
//                               for |v| < 2^22, and still to be truncated
//     Vec scale_by_pow2(v, k)   v * 2^k for whole k in [-252, 254], rounded once
//     float sum(v)              halves added to halves, in that order
//     void sum_each(v, out)     sum of each of some vectors, the same to the bit
//     float largest(v)
//     Vec widen(p)              WIDTH int8, or bf16, as floats
//     Vec widen(p, n)           the first n bf16, zeros beyond; memory there is not read
//     void narrow(p, v)         truncates WIDTH floats to int8
//     Codes                     the 32 codes of a block
//     Codes codes(block)        of a q8_0 or q4_0 block; those of q4_0 centred on 0
//     Vec dot(a, b)             sums of products of codes, exact, spread over the lanes, or all of it
//                               in the first
//     float sum_of_dots(v)      the lanes that dot fills, added
//     DENSE_TILE_ROWS           rows and columns whose sums fit the registers at once
//     DENSE_TILE_COLUMNS
//     float to_f32(h)           from binary16, exact
//     uint16_t to_f16(f)        to binary16, halves to even
#pragma once

#include "hotfire_kernels.h"

#include <stdint.h>

#include HOTFIRE_SIMD

namespace hotfire::HOTFIRE_ISA {

static constexpr int64_t BLOCK_LEN = 32;

template <int N> static inline void sum_each(const Vec (&vectors)[N], float *sums) {
    int i = 0;
#if defined(__AVX512F__)
    for (; i + WIDTH <= N; i += WIDTH)
        store(sums + i, sum_of_each(vectors + i));
#endif
#pragma GCC unroll 8
    for (; i < N; ++i)
        sums[i] = sum(vectors[i]);
}

// How many values one element of an operand holds, and how many elements hold n values.
template <class T> inline constexpr int64_t VALUES = 1;
template <> inline constexpr int64_t VALUES<hotfire_block_q8_0> = BLOCK_LEN;
template <> inline constexpr int64_t VALUES<hotfire_block_q4_0> = BLOCK_LEN;
template <class T> static inline int64_t elements(int64_t n) { return n / VALUES<T>; }

// To bf16, the upper half of an f32, halves to even.
static inline uint16_t to_bf16(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float from_bf16(uint16_t half) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// e^x within 1.1 ulp, measured over every third float, down to the smallest subnormal; 0 below and
// infinite above.
//
// x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 is split so that k times its high part is exact.
// The polynomial for e^r is that of Moshier's Cephes library (expf.c).
static inline Vec exp(Vec x) {
    const float round_to_whole = 0x1.8p23f; // adding it leaves no room for a fraction
    x = max(splat(-104.0f), x);
    x = splat(0.0f) - max(splat(-89.0f), splat(0.0f) - x);
    const Vec k = (x * 0x1.715476p0f + round_to_whole) - round_to_whole;
    const Vec r = fma(k, splat(0x1.bd0106p-13f), fma(k, splat(-0x1.63p-1f), x));
    Vec p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = fma(p, r * r, r) + 1.0f;
    return scale_by_pow2(p, k);
}

// e^x of one number, the same as in a vector.
static inline float exp_of(float x) {
    float lanes[WIDTH];
    store(lanes, exp(splat(x)));
    return lanes[0];
}

// x / (1 + e^-x), and not x times a sigmoid: one rounding less.
static inline Vec silu(Vec x) { return x / (exp(splat(0.0f) - x) + 1.0f); }

} // namespace hotfire::HOTFIRE_ISA
