// Encoders of single values and blocks, as the cache and the quantisers store them.
#pragma once

#include "kernel.hpp"

HOTFIRE_FAMILY_MUTANT(half_to_even, "halves are rounded to even");
HOTFIRE_FAMILY_MUTANT(scale_rounded_first, "codes come from the scale after its rounding to f16");
HOTFIRE_FAMILY_MUTANT(peak_over_128, "the scale is the peak / 128");
HOTFIRE_FAMILY_MUTANT(peak_signed, "the peak is the greatest x, not |x|");
HOTFIRE_FAMILY_MUTANT(peak_of_half, "the peak is sought in 16 of 32 values");

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float q8_0_peak(const float *x) {
    Vec peaks = splat(0);
    for (int64_t i = 0; i < (peak_of_half ? 16 : BLOCK_LEN); i += WIDTH)
        peaks = max(peaks, peak_signed ? load(x + i) : abs(load(x + i)));
    return largest(peaks);
}

// 32 values as ggml's reference encoder stores them.
static void encode_block(const float *x, hotfire_block_q8_0 *y) {
    float d = q8_0_peak(x) / (peak_over_128 ? 128 : 127);
    y->d = to_f16(d);
    if (scale_rounded_first)
        d = to_f32(y->d);
    const float inverse = 1 / d > __FLT_MAX__ ? 0 : 1 / d; // 0 too if d is
    for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH) {
        const Vec scaled = load(x + i) * inverse;
        const float to_even = 0x1.8p23f;
        narrow(y->qs + i, half_to_even ? scaled + to_even - to_even : round_away(scaled));
    }
}

} // namespace hotfire::HOTFIRE_ISA

#endif
