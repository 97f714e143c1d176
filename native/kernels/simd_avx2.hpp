// AVX2 with FMA and F16C: eight lanes.
#pragma once

#include "simd_x86.hpp"

namespace hotfire::HOTFIRE_ISA {

using Vec = __m256;
static constexpr int64_t WIDTH = 8;
static constexpr int DENSE_TILE_ROWS = 3, DENSE_TILE_COLUMNS = 4;

static inline __m256i first_lanes(int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

static inline Vec splat(float value) { return _mm256_set1_ps(value); }
static inline Vec load(const float *p) { return _mm256_loadu_ps(p); }

static inline Vec load(const float *p, int64_t n, float fill = 0) {
    if (n >= WIDTH)
        return load(p);
    const __m256i lanes = first_lanes(n);
    return _mm256_blendv_ps(splat(fill), _mm256_maskload_ps(p, lanes), _mm256_castsi256_ps(lanes));
}

static inline void store(float *p, Vec v) { _mm256_storeu_ps(p, v); }

static inline void store(float *p, Vec v, int64_t n) {
    if (n >= WIDTH)
        store(p, v);
    else
        _mm256_maskstore_ps(p, first_lanes(n), v);
}

static inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
static inline Vec abs(Vec v) { return _mm256_andnot_ps(splat(-0.0f), v); }

static inline Vec round_away(Vec v) {
    return v + _mm256_or_ps(_mm256_and_ps(v, splat(-0.0f)), splat(0x1.fffffep-2f));
}

static inline __m256 pow2(__m256i k) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23));
}

// In two steps, as 2^k itself may be no float; the first is exact.
static inline Vec scale_by_pow2(Vec v, Vec k) {
    const __m256i whole = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(whole, 1);
    return v * pow2(half) * pow2(_mm256_sub_epi32(whole, half));
}

static inline Vec widen(const int8_t *p) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}

static inline Vec widen(const uint16_t *p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static inline Vec widen(const uint16_t *p, int64_t n) {
    if (n >= WIDTH)
        return widen(p);
    uint16_t halves[WIDTH] = {};
    for (int64_t i = 0; i < n; ++i)
        halves[i] = p[i];
    return widen(halves);
}

static inline void narrow(int8_t *p, Vec v) {
    const __m256i whole = _mm256_cvttps_epi32(v);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i *>(p), _mm_packs_epi16(words, words));
}

static inline float sum_of_dots(Vec v) { return sum(v); }

// Widened to 16 bits first: maddubs would saturate, and sign tricks lose the code -128.
static inline Vec dot(Codes a, Codes b) {
    const __m256i low = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
                                          _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)));
    const __m256i high = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1)),
                                           _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1)));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(low, high));
}

} // namespace hotfire::HOTFIRE_ISA
