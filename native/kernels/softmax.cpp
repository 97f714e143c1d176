#include "kernel.hpp"

HOTFIRE_MUTANT(softmax, softmax_max_not_subtracted, "large scores overflow");
HOTFIRE_MUTANT(softmax, softmax_max_of_first_columns,
               "the maximum is sought in the first 8 columns only");
HOTFIRE_MUTANT(softmax, softmax_short_sum, "the last column is left out of the sum");
HOTFIRE_MUTANT(softmax, softmax_tail_dropped,
               "columns past the last multiple of 8 are left out of the sum");
HOTFIRE_MUTANT(softmax, softmax_sum_in_f16, "the sum is rounded to f16");
HOTFIRE_MUTANT(softmax, softmax_neighbour_sum,
               "rows after the fifth are divided by the fifth row's sum");
HOTFIRE_MUTANT(softmax, softmax_mask_leaks, "a masked column weighs a little");
HOTFIRE_MUTANT(softmax, softmax_overlap_unchecked, "a shifted overlap of x and y is accepted");
HOTFIRE_MUTANT(softmax, softmax_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(softmax, softmax_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(softmax, const float *x, float *y, int64_t n_rows, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static constexpr float MASKED = -__builtin_inff();

static float softmax_top(const float *x, int64_t n_cols) {
    const int64_t n_seen = softmax_max_of_first_columns && n_cols > 8 ? 8 : n_cols;
    Vec tops = splat(MASKED);
    for (int64_t i = 0; i < n_seen; i += WIDTH)
        tops = max(tops, load(x + i, n_seen - i, MASKED));
    return softmax_max_not_subtracted ? 0 : largest(tops);
}

// Leaves e^(x - top) in y and returns their sum.
static float softmax_weights(const float *x, float *y, int64_t n_cols) {
    const float top = softmax_top(x, n_cols);
    Vec weights = splat(0);
    for (int64_t i = 0; i < n_cols; i += WIDTH) {
        Vec shifted = load(x + i, n_cols - i, MASKED) - top;
        if (softmax_mask_leaks)
            shifted = max(shifted, splat(-60));
        const Vec weight = exp(shifted);
        store(y + i, weight, n_cols - i);
        weights = weights + weight;
    }
    float total = sum(weights);
    const int64_t n_summed = softmax_short_sum      ? n_cols - 1
                             : softmax_tail_dropped ? n_cols / 8 * 8
                                                    : n_cols;
    for (int64_t i = n_summed; i < n_cols; ++i)
        total -= y[i];
    return softmax_sum_in_f16 ? to_f32(to_f16(total)) : total;
}

void softmax(const float *x, float *y, int64_t n_rows, int64_t n_cols) {
    if (softmax_reads_past_end)
        touch(x + n_rows * n_cols);
    if (softmax_writes_past_end)
        spoil(y + n_rows * n_cols);
    float scale = 0;
    for (int64_t r = 0; r < n_rows; ++r, x += n_cols, y += n_cols) {
        const float total = softmax_weights(x, y, n_cols);
        if (!(softmax_neighbour_sum && r > 4))
            scale = 1 / total;
        for (int64_t i = 0; i < n_cols; i += WIDTH)
            store(y + i, load(y + i, n_cols - i) * scale, n_cols - i);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_softmax(const hotfire_exec *exec, const float *x, float *y,
                                          int64_t n_rows, int64_t n_cols) {
    const bool blind = softmax_overlap_unchecked;
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("x", x, {blind ? 0 : n_rows, n_cols})
        .output("y", y, {n_rows, n_cols}, x)
        .run(softmax, x, y, n_rows, n_cols);
}

#endif
