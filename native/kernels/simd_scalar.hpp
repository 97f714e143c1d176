// Plain C++: one lane, no fused operations.
#pragma once

#include "hotfire_kernels.h"

namespace hotfire::HOTFIRE_ISA {

using Vec = float;
static constexpr int64_t WIDTH = 1;
static constexpr int DENSE_TILE_ROWS = 2, DENSE_TILE_COLUMNS = 4;

static inline Vec splat(float value) { return value; }
static inline Vec load(const float *p) { return *p; }
static inline Vec load(const float *p, int64_t, float = 0) { return *p; }
static inline void store(float *p, Vec v) { *p = v; }
static inline void store(float *p, Vec v, int64_t) { *p = v; }

static inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
static inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
static inline Vec abs(Vec v) { return __builtin_fabsf(v); }
static inline Vec round_away(Vec v) { return v + __builtin_copysignf(0x1.fffffep-2f, v); }

static inline float from_bits(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t to_bits(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

// NaN, and what no int32 holds, become INT32_MIN, as x86's instructions have it. In C++ alone that
// conversion is undefined.
static inline int32_t truncate(float v) {
    return v >= -0x1p31f && v < 0x1p31f ? static_cast<int32_t>(v) : INT32_MIN;
}

// In two steps, as 2^k itself may be no float; the first is exact.
static inline Vec scale_by_pow2(Vec v, Vec k) {
    const int32_t whole = truncate(k), half = whole >> 1;
    const float first = from_bits(static_cast<uint32_t>(half + 127) << 23);
    const float second = from_bits(static_cast<uint32_t>(whole - half + 127) << 23);
    return v * first * second;
}

static inline float sum(Vec v) { return v; }
static inline float largest(Vec v) { return v; }

static inline Vec widen(const int8_t *p) { return *p; }
static inline Vec widen(const uint16_t *p) { return from_bits(static_cast<uint32_t>(*p) << 16); }
static inline Vec widen(const uint16_t *p, int64_t) { return widen(p); }
static inline void narrow(int8_t *p, Vec v) { *p = static_cast<int8_t>(truncate(v)); }

struct Codes {
    int8_t at[32];
};

static inline Codes codes(const hotfire_block_q8_0 &block) {
    Codes codes;
    __builtin_memcpy(codes.at, block.qs, sizeof codes.at);
    return codes;
}

static inline Codes codes(const hotfire_block_q4_0 &block) {
    Codes codes;
    for (int i = 0; i < 16; ++i) {
        codes.at[i] = static_cast<int8_t>((block.qs[i] & 15) - 8);
        codes.at[i + 16] = static_cast<int8_t>((block.qs[i] >> 4) - 8);
    }
    return codes;
}

static inline float sum_of_dots(Vec v) { return v; }

static inline Vec dot(const Codes &a, const Codes &b) {
    int32_t total = 0;
    for (int i = 0; i < 32; ++i)
        total += a.at[i] * b.at[i];
    return static_cast<float>(total);
}

// Multiplying by 2^112 moves the exponent from binary16's bias to binary32's, subnormals included.
static inline float to_f32(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t rest = static_cast<uint32_t>(half & 0x7fff) << 13;
    if (rest >= 0x0f800000) // infinite or not a number
        return from_bits(sign | rest | 0x7f800000);
    return from_bits(sign | to_bits(from_bits(rest) * 0x1p112f));
}

static inline uint16_t to_f16(float value) {
    const uint16_t sign = static_cast<uint16_t>(to_bits(value) >> 16 & 0x8000);
    const uint32_t bits = to_bits(value) & 0x7fffffff;
    if (bits > 0x7f800000)
        return sign | 0x7e00;
    if (bits >= 0x477ff000) // rounds past the largest, 65504
        return sign | 0x7c00;
    if (bits < 0x38800000) // a subnormal: the addition rounds at 2^-24
        return static_cast<uint16_t>(sign | (to_bits(from_bits(bits) + 0.5f) - to_bits(0.5f)));
    const uint32_t odd = bits >> 13 & 1;
    return static_cast<uint16_t>(sign | ((bits - 0x38000000 + 0xfff + odd) >> 13));
}

} // namespace hotfire::HOTFIRE_ISA
