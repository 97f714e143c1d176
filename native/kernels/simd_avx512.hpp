// AVX-512 F, BW, DQ and VL: sixteen lanes.
#pragma once

#include "simd_x86.hpp"

namespace hotfire::HOTFIRE_ISA {

using Vec = __m512;
static constexpr int64_t WIDTH = 16;

static inline __mmask16 first_lanes(int64_t n) {
    return static_cast<__mmask16>(n >= WIDTH ? 0xffff : (1u << n) - 1);
}

static inline Vec splat(float value) { return _mm512_set1_ps(value); }
static inline Vec load(const float *p) { return _mm512_loadu_ps(p); }

static inline Vec load(const float *p, int64_t n, float fill = 0) {
    return _mm512_mask_loadu_ps(splat(fill), first_lanes(n), p);
}

static inline void store(float *p, Vec v) { _mm512_storeu_ps(p, v); }

static inline void store(float *p, Vec v, int64_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

static inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec abs(Vec v) { return _mm512_andnot_ps(splat(-0.0f), v); }

static inline Vec round_away(Vec v) {
    return v + _mm512_or_ps(_mm512_and_ps(v, splat(-0.0f)), splat(0x1.fffffep-2f));
}

static inline Vec scale_by_pow2(Vec v, Vec k) { return _mm512_scalef_ps(v, k); }

static inline float sum(Vec v) {
    return sum(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

static inline float largest(Vec v) {
    return largest(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

static inline Vec widen(const int8_t *p) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen));
}

static inline Vec widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static inline Vec widen(const uint16_t *p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

static inline Vec widen(const uint16_t *p, int64_t n) {
    return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}

static inline void narrow(int8_t *p, Vec v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtsepi32_epi8(_mm512_cvttps_epi32(v)));
}

// Widened to 16 bits first: maddubs would saturate, and sign tricks lose the code -128.
static inline Vec dot(Codes a, Codes b) {
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(_mm512_cvtepi8_epi16(a), _mm512_cvtepi8_epi16(b)));
}

} // namespace hotfire::HOTFIRE_ISA
