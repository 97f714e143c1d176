// What the kernels of RMSNorm share: the mean of squares, and how a row is scaled.
#pragma once

#include "kernel.hpp"

HOTFIRE_FAMILY_MUTANT(short_sum, "the last element is left out of the mean");
HOTFIRE_FAMILY_MUTANT(tail_dropped,
                      "elements past the last multiple of 8 are left out of the mean");
HOTFIRE_FAMILY_MUTANT(eps_outside_root, "eps is added to the root, not to the mean");
HOTFIRE_FAMILY_MUTANT(mean_in_f16, "the mean of squares is rounded to f16");
HOTFIRE_FAMILY_MUTANT(neighbour_scale, "rows after the fifth are scaled by the fifth row's mean");
HOTFIRE_FAMILY_MUTANT(weight_shifted,
                      "after the first vector, weights are those of one column earlier");
HOTFIRE_FAMILY_MUTANT(eps_unchecked, "an eps of 0, below 0 or not finite is accepted");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "x is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one element past its end");

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float rms_norm_scale(const float *row, float eps, int64_t n_embd) {
    const int64_t n_summed = short_sum ? n_embd - 1 : tail_dropped ? n_embd / 8 * 8 : n_embd;
    Vec squares = splat(0);
    for (int64_t i = 0; i < n_summed; i += WIDTH) {
        const Vec v = load(row + i, n_summed - i);
        squares = fma(v, v, squares);
    }
    float mean = sum(squares) / static_cast<float>(n_embd);
    if (mean_in_f16)
        mean = to_f32(to_f16(mean));
    if (eps_outside_root)
        return 1 / (__builtin_sqrtf(mean) + eps);
    return 1 / __builtin_sqrtf(mean + eps);
}

// `finish` makes of a scaled vector of row t what y gets; the weights from `from` on belong to it,
// and n values remain.
template <class Finish>
static void rms_norm_rows(Range tokens, const float *x, float *y, float eps, int64_t n_tokens, int64_t n_embd,
                          Finish finish) {
    if (reads_past_end)
        touch(x + n_tokens * n_embd);
    if (writes_past_end)
        spoil(y + n_tokens * n_embd);
    for (int64_t t = tokens.begin; t < tokens.end; ++t) {
        const float *from_row = x + t * n_embd;
        float *to_row = y + t * n_embd;
        const int64_t scaled_by = neighbour_scale && t > 4 ? 4 : t;
        const float scale = rms_norm_scale(x + scaled_by * n_embd, eps, n_embd);
        for (int64_t i = 0; i < n_embd; i += WIDTH) {
            const int64_t n = n_embd - i, from = weight_shifted && i > 0 ? i - 1 : i;
            store(to_row + i, finish(load(from_row + i, n) * scale, t, i, from, n), n);
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#endif
