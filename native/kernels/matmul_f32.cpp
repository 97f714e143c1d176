#define HOTFIRE_OPERATION "matmul_f32"
#include "matmul.hpp"

using Call = hotfire::Matmul<float, float>;

HOTFIRE_VARIANTS(matmul_f32, Range rows, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::matmul_f32(Range rows, const Call &call) { matmul_rows(rows, call); }

#else

extern "C" hotfire_status hotfire_matmul_f32(const hotfire_exec *exec, const float *weight,
                                      const float *x, float *y, int64_t n_tokens,
                                      int64_t n_rows, int64_t n_cols) {
    return matmul(exec, matmul_f32, Call{weight, x, y, n_tokens, n_rows, n_cols});
}

#endif
