// ROWS rows a block of threads; a thread takes whole quantised blocks, whose integer sums are exact.
#define HOTFIRE_OPERATION matvec_q8_0
#include "reduce.hpp"

HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_reads_past_row, "a row is read one block past its end");

using namespace hotfire::gpu;

static constexpr int ROWS = 4;
static constexpr int BLOCK_LEN = 32;

// Blocks are aligned to two bytes, so codes come in pairs.
HOTFIRE_DEVICE int32_t four_codes(const int8_t *codes) {
    const uint16_t *pairs = reinterpret_cast<const uint16_t *>(codes);
    return static_cast<int32_t>(pairs[0] | static_cast<uint32_t>(pairs[1]) << 16);
}

HOTFIRE_DEVICE float dot(const hotfire_block_q8_0 &a, const int32_t (&codes)[BLOCK_LEN / 4]) {
    int32_t sum = 0;
    for (int i = 0; i < BLOCK_LEN / 4; ++i)
        sum = dot4(four_codes(a.qs + 4 * i), codes[i], sum);
    return static_cast<float>(sum);
}

HOTFIRE_KERNEL(matvec_q8_0, ROWS, const hotfire_block_q8_0 *weight, const hotfire_block_q8_0 *x,
               float *y, int64_t n_rows, int64_t n_cols) {
    HOTFIRE_SHARED(float, partial, ROWS *MAX_WAVES);
    const int64_t first = block_index() * ROWS, n_blocks = n_cols / BLOCK_LEN;
    float sums[ROWS] = {};
    for (int64_t b = thread_index(); b < n_blocks + matvec_q8_0_reads_past_row; b += BLOCK_SIZE) {
        int32_t codes[BLOCK_LEN / 4];
        for (int i = 0; i < BLOCK_LEN / 4; ++i)
            codes[i] = four_codes(x[b].qs + 4 * i);
        const float scale = to_f32(x[b].d);
        for (int r = 0; r < ROWS; ++r) { // past the last row, the last row once more
            const int64_t row = first + r < n_rows ? first + r : n_rows - 1;
            const hotfire_block_q8_0 &block = weight[row * n_blocks + b];
            sums[r] = fmaf(dot(block, codes), to_f32(block.d) * scale, sums[r]);
        }
    }
    share_sums(sums, partial);
    if (thread_index() < ROWS && first + thread_index() < n_rows)
        y[first + thread_index()] = block_sum(partial, thread_index());
}
