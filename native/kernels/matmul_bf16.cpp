#define HOTFIRE_OPERATION "matmul_bf16"
#include "matmul.hpp"

using Call = hotfire::Matmul<uint16_t, float>;

HOTFIRE_VARIANTS(matmul_bf16, Range rows, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::matmul_bf16(Range rows, const Call &call) { matmul_rows(rows, call); }

#else

extern "C" hotfire_status hotfire_matmul_bf16(const hotfire_exec *exec, const uint16_t *weight,
                                      const float *x, float *y, int64_t n_tokens,
                                      int64_t n_rows, int64_t n_cols) {
    return matmul(exec, matmul_bf16, Call{weight, x, y, n_tokens, n_rows, n_cols});
}

#endif
