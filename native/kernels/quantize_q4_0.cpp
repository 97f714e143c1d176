#include "kernel.hpp"

HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_swapped_nibbles, "low and high nibbles change places");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_interleaved_nibbles,
               "a byte holds values 2 j and 2 j + 1 instead of j and j + 16");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_peak_unsigned, "the scale ignores the peak's sign");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_last_of_equal_peaks,
               "of equal magnitudes the last gives the sign");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_half_to_even, "halves are rounded to even");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_code_16, "codes are not limited to 15");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(quantize_q4_0, quantize_q4_0_writes_past_end, "y is written one block past its end");

HOTFIRE_VARIANTS(quantize_q4_0, const float *x, hotfire_block_q4_0 *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

// The x of greatest magnitude, the first of equals; 0 for a block of zeros of either sign.
static float quantize_q4_0_peak(const float *x) {
    Vec highs = splat(0), lows = splat(0);
    for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH) {
        highs = max(highs, load(x + i));
        lows = max(lows, splat(0) - load(x + i));
    }
    const float high = largest(highs), low = largest(lows);
    if (quantize_q4_0_peak_unsigned)
        return high > low ? high : low;
    if (high != low)
        return high > low ? high : -low;
    for (int64_t i = 0; i < BLOCK_LEN && high != 0; ++i) {
        const float value = x[quantize_q4_0_last_of_equal_peaks ? BLOCK_LEN - 1 - i : i];
        if (value == high || value == -high)
            return value;
    }
    return 0;
}

static void quantize_q4_0_block(const float *x, hotfire_block_q4_0 *y) {
    const float d = quantize_q4_0_peak(x) / -8;
    const float inverse = __builtin_fabsf(1 / d) > __FLT_MAX__ ? 0 : 1 / d; // 0 too if d is
    int8_t values[BLOCK_LEN];
    for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH) {
        const Vec scaled = load(x + i) * inverse;
        const float to_even = 0x1.8p23f;
        narrow(values + i, quantize_q4_0_half_to_even ? scaled + 8.0f + to_even - to_even
                                                      : scaled + 8.5f);
    }
    y->d = to_f16(d);
    for (int64_t j = 0; j < BLOCK_LEN / 2; ++j) {
        int low = values[quantize_q4_0_interleaved_nibbles ? 2 * j : j];
        int high = values[quantize_q4_0_interleaved_nibbles ? 2 * j + 1 : j + BLOCK_LEN / 2];
        if (!quantize_q4_0_code_16) {
            low = low > 15 ? 15 : low;
            high = high > 15 ? 15 : high;
        }
        y->qs[j] = static_cast<uint8_t>(quantize_q4_0_swapped_nibbles ? low << 4 | high
                                                                      : high << 4 | low);
    }
}

void quantize_q4_0(const float *x, hotfire_block_q4_0 *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_rows * n_cols / BLOCK_LEN;
    if (quantize_q4_0_reads_past_end)
        touch(x + n_blocks * BLOCK_LEN);
    if (quantize_q4_0_writes_past_end)
        spoil(y + n_blocks);
    for (int64_t b = 0; b < n_blocks; ++b)
        quantize_q4_0_block(x + b * BLOCK_LEN, y + b);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_quantize_q4_0(const hotfire_exec *exec, const float *x,
                                                hotfire_block_q4_0 *y, int64_t n_rows,
                                                int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("x", x, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols})
        .run(quantize_q4_0, x, y, n_rows, n_cols);
}

#endif
