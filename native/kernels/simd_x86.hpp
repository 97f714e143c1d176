// What AVX2 and AVX-512 have in common.
#pragma once

#include "hotfire_kernels.h"

#include <immintrin.h>

namespace hotfire::HOTFIRE_ISA {

using Codes = __m256i;

static inline Codes codes(const hotfire_block_q8_0 &block) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(block.qs));
}

static inline Codes codes(const hotfire_block_q4_0 &block) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block.qs));
    const __m256i shifted = _mm256_set_m128i(_mm_srli_epi16(packed, 4), packed);
    return _mm256_sub_epi8(_mm256_and_si256(shifted, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
}

static inline float sum(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float largest(__m256 v) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline float to_f32(uint16_t half) { return _cvtsh_ss(half); }
static inline uint16_t to_f16(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

} // namespace hotfire::HOTFIRE_ISA
