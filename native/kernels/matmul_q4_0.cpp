#define HOTFIRE_OPERATION "matmul_q4_0"
#include "matmul.hpp"

HOTFIRE_VARIANTS(matmul_q4_0, Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
                 float *y, int64_t n_tokens, int64_t n_rows, int64_t n_cols, bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void matmul_q4_0(Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x, float *y,
                 int64_t n_tokens, int64_t n_rows, int64_t n_cols, bool fast) {
    Matmul<hotfire_block_q4_0, hotfire_block_q8_0>{weight, x, y, n_tokens, n_rows, n_cols, fast}.run(rows);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matmul_q4_0(const hotfire_exec *exec,
                                              const hotfire_block_q4_0 *weight,
                                              const hotfire_block_q8_0 *x, float *y,
                                              int64_t n_tokens, int64_t n_rows,
                                              int64_t n_cols) {
    Check check(exec);
    return check.size("n_tokens", n_tokens)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_tokens, n_cols})
        .output("y", y, {n_tokens, n_rows})
        .run({{n_rows}, {n_tokens, n_cols}}, matmul_q4_0, weight, x, y, n_tokens, n_rows, n_cols, check.fast());
}

#endif
