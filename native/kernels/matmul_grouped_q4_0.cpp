#define HOTFIRE_OPERATION "matmul_grouped_q4_0"
#include "matmul_grouped.hpp"

using Call = hotfire::Grouped<hotfire_block_q4_0, hotfire_block_q8_0>;

HOTFIRE_VARIANTS(matmul_grouped_q4_0, Range rows, const Call &call)

#ifdef HOTFIRE_ISA

void hotfire::HOTFIRE_ISA::matmul_grouped_q4_0(Range rows, const Call &call) {
    matmul_grouped_rows(rows, call);
}

#else

extern "C" hotfire_status hotfire_matmul_grouped_q4_0(
    const hotfire_exec *exec, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
    const int32_t *expert_ids, float *y, int64_t n_tokens, int64_t n_top_k, int64_t n_experts,
    int64_t n_rows, int64_t n_cols) {
    return matmul_grouped(
        exec, matmul_grouped_q4_0,
        Call{weight, x, expert_ids, y, n_tokens, n_top_k, n_experts, n_rows, n_cols});
}

#endif
