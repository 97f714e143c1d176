#define HOTFIRE_OPERATION "matmul_grouped_q4_0"
#include "matmul_grouped.hpp"

HOTFIRE_VARIANTS(matmul_grouped_q4_0, Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
                 const int32_t *expert_ids, float *y, int64_t n_tokens, int64_t n_top_k,
                 int64_t n_experts, int64_t n_rows, int64_t n_cols, bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void matmul_grouped_q4_0(Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
                         const int32_t *expert_ids, float *y, int64_t n_tokens, int64_t n_top_k,
                         int64_t n_experts, int64_t n_rows, int64_t n_cols,
                 bool fast) {
    Grouped<hotfire_block_q4_0, hotfire_block_q8_0>{
        weight, x, expert_ids, y, n_tokens, n_top_k, n_experts, n_rows, n_cols, fast}
        .run(rows);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matmul_grouped_q4_0(
    const hotfire_exec *exec, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
    const int32_t *expert_ids, float *y, int64_t n_tokens, int64_t n_top_k, int64_t n_experts,
    int64_t n_rows, int64_t n_cols) {
    Check check(exec);
    return check.size("n_tokens", n_tokens)
        .size("n_top_k", n_top_k)
        .size("n_experts", n_experts)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("weight", weight, {n_experts, n_rows, n_cols})
        .input("x", x, {n_tokens, n_cols})
        .input("expert_ids", expert_ids, {n_tokens, n_top_k})
        .output("y", y, {n_tokens, n_top_k, n_rows})
        .run({{n_rows}, {n_tokens, n_top_k, n_cols}}, matmul_grouped_q4_0, weight, x, expert_ids, y, n_tokens, n_top_k, n_experts, n_rows,
             n_cols, check.fast());
}

#endif
