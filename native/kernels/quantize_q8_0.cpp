#include "kernel.hpp"

HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_half_to_even, "halves are rounded to even");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_scale_rounded_first,
               "codes come from the scale after its rounding to f16");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_peak_over_128, "the scale is the peak / 128");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_peak_signed, "the peak is the greatest x, not |x|");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_peak_of_half, "the peak is sought in 16 of 32 values");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_last_block_dropped, "the last block is not written");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(quantize_q8_0, quantize_q8_0_writes_past_end, "y is written one block past its end");

HOTFIRE_VARIANTS(quantize_q8_0, const float *x, hotfire_block_q8_0 *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float quantize_q8_0_peak(const float *x) {
    Vec peaks = splat(0);
    for (int64_t i = 0; i < (quantize_q8_0_peak_of_half ? 16 : BLOCK_LEN); i += WIDTH)
        peaks = max(peaks, quantize_q8_0_peak_signed ? load(x + i) : abs(load(x + i)));
    return largest(peaks);
}

static void quantize_q8_0_block(const float *x, hotfire_block_q8_0 *y) {
    float d = quantize_q8_0_peak(x) / (quantize_q8_0_peak_over_128 ? 128 : 127);
    y->d = to_f16(d);
    if (quantize_q8_0_scale_rounded_first)
        d = to_f32(y->d);
    const float inverse = 1 / d > __FLT_MAX__ ? 0 : 1 / d; // 0 too if d is
    for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH) {
        const Vec scaled = load(x + i) * inverse;
        const float to_even = 0x1.8p23f;
        narrow(y->qs + i, quantize_q8_0_half_to_even ? scaled + to_even - to_even
                                                     : round_away(scaled));
    }
}

void quantize_q8_0(const float *x, hotfire_block_q8_0 *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_rows * n_cols / BLOCK_LEN;
    if (quantize_q8_0_reads_past_end)
        touch(x + n_blocks * BLOCK_LEN);
    if (quantize_q8_0_writes_past_end)
        spoil(y + n_blocks);
    for (int64_t b = 0; b < n_blocks - quantize_q8_0_last_block_dropped; ++b)
        quantize_q8_0_block(x + b * BLOCK_LEN, y + b);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_quantize_q8_0(const hotfire_exec *exec, const float *x,
                                                hotfire_block_q8_0 *y, int64_t n_rows,
                                                int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("x", x, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols})
        .run(quantize_q8_0, x, y, n_rows, n_cols);
}

#endif
