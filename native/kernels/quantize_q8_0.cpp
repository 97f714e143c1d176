#define HOTFIRE_OPERATION "quantize_q8_0"
#include "encode.hpp"

HOTFIRE_FAMILY_MUTANT(last_block_dropped, "the last block is not written");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "x is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one block past its end");

HOTFIRE_VARIANTS(quantize_q8_0, Range rows, const float *x, hotfire_block_q8_0 *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void quantize_q8_0(Range rows, const float *x, hotfire_block_q8_0 *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_rows * n_cols / BLOCK_LEN;
    const int64_t begin = rows.begin * n_cols / BLOCK_LEN, end = rows.end * n_cols / BLOCK_LEN;
    if (reads_past_end)
        touch(x + n_blocks * BLOCK_LEN);
    if (writes_past_end)
        spoil(y + n_blocks);
    for (int64_t b = begin; b < end - (last_block_dropped && end == n_blocks); ++b)
        encode_block(x + b * BLOCK_LEN, y + b);
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
        .run({{n_rows}, {n_cols}}, quantize_q8_0, x, y, n_rows, n_cols);
}

#endif
