// One block a row: the threads add their squares, then scale the elements that they added.
#define HOTFIRE_OPERATION rms_norm
#include "reduce.hpp"

HOTFIRE_MUTANT(rms_norm, rms_norm_reads_past_row, "a row is read one element past its end");

using namespace hotfire::gpu;

HOTFIRE_KERNEL(rms_norm, 1, const float *x, const float *weight, float *y, float eps,
               [[maybe_unused]] int64_t n_tokens, int64_t n_embd) {
    HOTFIRE_SHARED(float, partial, MAX_WAVES);
    const float *row = x + block_index() * n_embd;
    float squares[1] = {};
    for (int64_t i = thread_index(); i < n_embd + rms_norm_reads_past_row; i += BLOCK_SIZE)
        squares[0] = fmaf(row[i], row[i], squares[0]);
    share_sums(squares, partial);
    const float mean = block_sum(partial, 0) / static_cast<float>(n_embd);
    const float scale = 1 / sqrtf(mean + eps);
    float *out = y + block_index() * n_embd;
    for (int64_t i = thread_index(); i < n_embd; i += BLOCK_SIZE)
        out[i] = row[i] * scale * weight[i];
}
