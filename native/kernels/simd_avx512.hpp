// AVX-512 F, BW, DQ, VL and VNNI: sixteen lanes.
#pragma once

#include "simd_x86.hpp"

namespace hotfire::HOTFIRE_ISA {

using Vec = __m512;
static constexpr int64_t WIDTH = 16;
static constexpr int DENSE_TILE_ROWS = 4, DENSE_TILE_COLUMNS = 6;

static inline __mmask16 first_lanes(int64_t n) {
    return static_cast<__mmask16>(n >= WIDTH ? 0xffff : (1u << n) - 1);
}

static inline Vec splat(float value) { return _mm512_set1_ps(value); }
static inline Vec load(const float *p) { return _mm512_loadu_ps(p); }

static inline Vec load(const float *p, int64_t n, float fill = 0) {
    if (__builtin_constant_p(n) && n >= WIDTH)
        return load(p);
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

// The sums of sixteen vectors, halves added to halves as `sum` does it, two vectors at a time.
static inline Vec sum_of_each(const Vec *v) {
    Vec of_8[8], of_4[4], of_2[2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) // vectors i and i + 8: 8 lanes apart
        of_8[i] = _mm512_shuffle_f32x4(v[i], v[i + 8], 0x44) +
                  _mm512_shuffle_f32x4(v[i], v[i + 8], 0xee);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) // i, i + 8, i + 4, i + 12: 4 lanes apart
        of_4[i] = _mm512_shuffle_f32x4(of_8[i], of_8[i + 4], 0x88) +
                  _mm512_shuffle_f32x4(of_8[i], of_8[i + 4], 0xdd);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) { // i and i + 2 in turn: 2 lanes apart
        const __m512d a = _mm512_castps_pd(of_4[i]), b = _mm512_castps_pd(of_4[i + 2]);
        of_2[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) +
                  _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    const Vec sums = _mm512_shuffle_ps(of_2[0], of_2[1], 0x88) +
                     _mm512_shuffle_ps(of_2[0], of_2[1], 0xdd);
    const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
    return _mm512_permutexvar_ps(order, sums);
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
    if (__builtin_constant_p(n) && n >= WIDTH)
        return widen(p);
    return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}

static inline void narrow(int8_t *p, Vec v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtsepi32_epi8(_mm512_cvttps_epi32(v)));
}

static inline float sum_of_dots(Vec v) { return _mm512_cvtss_f32(v); }

// Widened to 16 bits first: maddubs would saturate, and sign tricks lose the code -128. The total
// lies in the first lane, as products_wide.hpp has one lane a row.
static inline Vec dot(Codes a, Codes b) {
    const __m512i pairs = _mm512_madd_epi16(_mm512_cvtepi8_epi16(a), _mm512_cvtepi8_epi16(b));
    const float total = static_cast<float>(_mm512_reduce_add_epi32(pairs));
    return _mm512_zextps128_ps512(_mm_set_ss(total));
}

} // namespace hotfire::HOTFIRE_ISA
