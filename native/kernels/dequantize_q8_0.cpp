#include "kernel.hpp"

HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_unsigned_codes, "codes lose their sign");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_next_scale,
               "a block takes the scale of the next one");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_scale_as_bf16, "the scale is read as bf16");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_values_in_f16, "values are rounded to f16");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_last_block_dropped, "the last block is not written");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_misaligned_unchecked, "a misaligned y is accepted");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_reads_past_end,
               "x is read one block past its end");
HOTFIRE_MUTANT(dequantize_q8_0, dequantize_q8_0_writes_past_end,
               "y is written one element past its end");

HOTFIRE_VARIANTS(dequantize_q8_0, const hotfire_block_q8_0 *x, float *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void dequantize_q8_0(const hotfire_block_q8_0 *x, float *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_rows * n_cols / BLOCK_LEN;
    if (dequantize_q8_0_reads_past_end)
        touch(x + n_blocks);
    if (dequantize_q8_0_writes_past_end)
        spoil(y + n_blocks * BLOCK_LEN);
    for (int64_t b = 0; b < n_blocks - dequantize_q8_0_last_block_dropped; ++b) {
        const int64_t s = dequantize_q8_0_next_scale && b + 1 < n_blocks ? b + 1 : b;
        const float scale = dequantize_q8_0_scale_as_bf16 ? from_bf16(x[s].d) : to_f32(x[s].d);
        float *values = y + b * BLOCK_LEN;
        for (int64_t i = 0; i < BLOCK_LEN; i += WIDTH)
            store(values + i, widen(x[b].qs + i) * scale);
        for (int64_t i = 0; i < BLOCK_LEN && dequantize_q8_0_unsigned_codes; ++i)
            values[i] = static_cast<float>(x[b].qs[i] & 255) * scale;
        for (int64_t i = 0; i < BLOCK_LEN && dequantize_q8_0_values_in_f16; ++i)
            values[i] = to_f32(to_f16(values[i]));
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_dequantize_q8_0(const hotfire_exec *exec,
                                                  const hotfire_block_q8_0 *x, float *y,
                                                  int64_t n_rows, int64_t n_cols) {
    Check check(exec);
    check.size("n_rows", n_rows).size("n_cols", n_cols, 32).input("x", x, {n_rows, n_cols});
    if (dequantize_q8_0_misaligned_unchecked)
        check.output("y", reinterpret_cast<char *>(y), {n_rows, n_cols, sizeof *y});
    else
        check.output("y", y, {n_rows, n_cols});
    return check.run(dequantize_q8_0, x, y, n_rows, n_cols);
}

#endif
