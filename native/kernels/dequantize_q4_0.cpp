#include "kernel.hpp"

HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_swapped_nibbles,
               "low and high nibbles change places");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_interleaved_nibbles,
               "a byte holds values 2 j and 2 j + 1 instead of j and j + 16");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_centred_on_7, "7 is taken off a code, not 8");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_signed_nibbles,
               "a code is two's complement instead of centred on 8");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_next_scale,
               "a block takes the scale of the next one");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_subnormal_scale_flushed,
               "a subnormal scale counts as 0");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_reads_past_end, "x is read one block past its end");
HOTFIRE_MUTANT(dequantize_q4_0, dequantize_q4_0_writes_past_end,
               "y is written one element past its end");

HOTFIRE_VARIANTS(dequantize_q4_0, const hotfire_block_q4_0 *x, float *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static void dequantize_q4_0_block(const uint8_t *pairs, float scale, float *y) {
    int8_t values[BLOCK_LEN];
    const int centre = dequantize_q4_0_centred_on_7 ? 7 : 8;
    for (int64_t j = 0; j < BLOCK_LEN / 2; ++j) {
        const int low = (dequantize_q4_0_swapped_nibbles ? pairs[j] >> 4 : pairs[j] & 15) - centre;
        const int high = (dequantize_q4_0_swapped_nibbles ? pairs[j] & 15 : pairs[j] >> 4) - centre;
        values[dequantize_q4_0_interleaved_nibbles ? 2 * j : j] = static_cast<int8_t>(low);
        values[dequantize_q4_0_interleaved_nibbles ? 2 * j + 1 : j + BLOCK_LEN / 2] =
            static_cast<int8_t>(high);
    }
    for (int64_t i = 0; i < BLOCK_LEN && dequantize_q4_0_signed_nibbles; ++i)
        values[i] = static_cast<int8_t>(values[i] < 0 ? values[i] + 8 : values[i] - 8);
    for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH)
        store(y + i, widen(values + i) * scale);
}

void dequantize_q4_0(const hotfire_block_q4_0 *x, float *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_rows * n_cols / BLOCK_LEN;
    if (dequantize_q4_0_reads_past_end)
        touch(x + n_blocks);
    if (dequantize_q4_0_writes_past_end)
        spoil(y + n_blocks * BLOCK_LEN);
    for (int64_t b = 0; b < n_blocks; ++b) {
        const int64_t s = dequantize_q4_0_next_scale && b + 1 < n_blocks ? b + 1 : b;
        const bool flush = dequantize_q4_0_subnormal_scale_flushed && (x[s].d & 0x7c00) == 0;
        dequantize_q4_0_block(x[b].qs, flush ? 0 : to_f32(x[s].d), y + b * BLOCK_LEN);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_dequantize_q4_0(const hotfire_exec *exec,
                                                  const hotfire_block_q4_0 *x, float *y,
                                                  int64_t n_rows, int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("x", x, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols})
        .run(dequantize_q4_0, x, y, n_rows, n_cols);
}

#endif
