#define HOTFIRE_OPERATION "matmul_grouped_bf16"
#include "matmul_grouped.hpp"

using Call = hotfire::Grouped<uint16_t, float>;

HOTFIRE_VARIANTS(matmul_grouped_bf16, Range rows, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::matmul_grouped_bf16(Range rows, const Call &call) {
    matmul_grouped_rows(rows, call);
}

#else

extern "C" hotfire_status hotfire_matmul_grouped_bf16(
    const hotfire_exec *exec, const uint16_t *weight, const float *x,
    const int32_t *expert_ids, float *y, int64_t n_tokens, int64_t n_top_k, int64_t n_experts,
    int64_t n_rows, int64_t n_cols) {
    return matmul_grouped(
        exec, matmul_grouped_bf16,
        Call{weight, x, expert_ids, y, n_tokens, n_top_k, n_experts, n_rows, n_cols});
}

#endif
