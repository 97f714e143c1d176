#define HOTFIRE_OPERATION "matmul_q8_0"
#include "matmul.hpp"

using Call = hotfire::Matmul<hotfire_block_q8_0, hotfire_block_q8_0>;

HOTFIRE_VARIANTS(matmul_q8_0, Range rows, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::matmul_q8_0(Range rows, const Call &call) { matmul_rows(rows, call); }

#else

extern "C" hotfire_status hotfire_matmul_q8_0(const hotfire_exec *exec, const hotfire_block_q8_0 *weight,
                                      const hotfire_block_q8_0 *x, float *y, int64_t n_tokens,
                                      int64_t n_rows, int64_t n_cols) {
    return matmul(exec, matmul_q8_0, Call{weight, x, y, n_tokens, n_rows, n_cols});
}

#endif
