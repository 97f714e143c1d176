// ROWS rows a block, so that an x is loaded once for all of them; eight columns a thread and step.
//
// Wide loads and single ones add in the same order: where the operands lie changes no bit.
#define HOTFIRE_OPERATION matvec_bf16
#include "reduce.hpp"

HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_reads_past_row, "a row is read one element past its end");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_wide_loads_unaligned,
               "16 bytes are loaded at once, wherever the operands lie");

using namespace hotfire::gpu;

static constexpr int ROWS = 4;
static constexpr int STEP = 8; // columns in 16 bytes of bf16

struct Columns {
    float at[STEP];
};

HOTFIRE_DEVICE bool is_wide(const void *p) {
    return reinterpret_cast<uintptr_t>(p) % sizeof(Wide) == 0;
}

HOTFIRE_DEVICE Columns load_wide(const float *p) {
    const Wide *wide = reinterpret_cast<const Wide *>(p);
    const Wide a = load(wide), b = load(wide + 1);
    return {from_bits(a.x), from_bits(a.y), from_bits(a.z), from_bits(a.w),
            from_bits(b.x), from_bits(b.y), from_bits(b.z), from_bits(b.w)};
}

// A bf16 is the upper half of the f32 of the same value.
HOTFIRE_DEVICE float low(uint32_t pair) { return from_bits(pair << 16); }
HOTFIRE_DEVICE float high(uint32_t pair) { return from_bits(pair & 0xffff0000); }

HOTFIRE_DEVICE Columns load_wide(const uint16_t *p) {
    const Wide a = load_once(reinterpret_cast<const Wide *>(p));
    return {low(a.x), high(a.x), low(a.y), high(a.y), low(a.z), high(a.z), low(a.w), high(a.w)};
}

HOTFIRE_DEVICE float add_products(const Columns &a, const Columns &b, float sum) {
    for (int i = 0; i < STEP; ++i)
        sum = fmaf(a.at[i], b.at[i], sum);
    return sum;
}

HOTFIRE_KERNEL(matvec_bf16, ROWS, const uint16_t *weight, const float *x, float *y, int64_t n_rows,
               int64_t n_cols) {
    HOTFIRE_SHARED(float, partial, ROWS *MAX_WAVES);
    const int64_t first = block_index() * ROWS;
    const uint16_t *rows[ROWS];
    float sums[ROWS] = {};
    for (int r = 0; r < ROWS; ++r) // past the last row, the last row once more
        rows[r] = weight + (first + r < n_rows ? first + r : n_rows - 1) * n_cols;

    const int64_t start = thread_index() * STEP;
    const bool wide = (is_wide(weight) && is_wide(x)) || matvec_bf16_wide_loads_unaligned;
    if (n_cols % STEP == 0 && wide) {
        HOTFIRE_NO_UNROLL
        for (int64_t k = start; k < n_cols; k += BLOCK_SIZE * STEP) {
            const Columns part = load_wide(x + k);
            for (int r = 0; r < ROWS; ++r)
                sums[r] = add_products(load_wide(rows[r] + k), part, sums[r]);
        }
    } else {
        const int64_t end = n_cols + matvec_bf16_reads_past_row;
        for (int64_t k = start; k < end; k += BLOCK_SIZE * STEP)
            for (int64_t i = k; i < end && i < k + STEP; ++i)
                for (int r = 0; r < ROWS; ++r)
                    sums[r] = fmaf(low(rows[r][i]), x[i], sums[r]);
    }
    share_sums(sums, partial);
    if (thread_index() < ROWS && first + thread_index() < n_rows)
        y[first + thread_index()] = block_sum(partial, thread_index());
}
