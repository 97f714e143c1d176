#include "kernel.hpp"

HOTFIRE_MUTANT(l2_norm, l2_norm_short_sum, "the last element is left out of the sum");
HOTFIRE_MUTANT(l2_norm, l2_norm_tail_dropped,
               "elements past the last multiple of 8 are left out of the sum");
HOTFIRE_MUTANT(l2_norm, l2_norm_mean_of_squares, "the sum is divided by the width, as in RMSNorm");
HOTFIRE_MUTANT(l2_norm, l2_norm_eps_left_out, "eps is not added");
HOTFIRE_MUTANT(l2_norm, l2_norm_eps_outside_root, "eps is added to the root, not to the sum");
HOTFIRE_MUTANT(l2_norm, l2_norm_sum_in_bf16, "the sum of squares is rounded to bf16");
HOTFIRE_MUTANT(l2_norm, l2_norm_neighbour_sum, "rows after the fifth take the fifth row's sum");
HOTFIRE_MUTANT(l2_norm, l2_norm_eps_unchecked, "an eps of 0, below 0 or not finite is accepted");
HOTFIRE_MUTANT(l2_norm, l2_norm_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(l2_norm, l2_norm_writes_past_end, "y is written one element past its end");
HOTFIRE_MUTANT(l2_norm, l2_norm_stride_ignored, "rows of x are read as if they had no gaps");
HOTFIRE_MUTANT(l2_norm, l2_norm_stride_of_other, "rows of y are written at x_stride");

HOTFIRE_VARIANTS(l2_norm, Range rows, const float *x, float *y, float eps, int64_t n_rows, int64_t n_cols,
                 int64_t x_stride, int64_t y_stride)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float l2_norm_scale(const float *row, float eps, int64_t n_cols) {
    const int64_t n_summed = l2_norm_short_sum      ? n_cols - 1
                             : l2_norm_tail_dropped ? n_cols / 8 * 8
                                                    : n_cols;
    Vec squares = splat(0);
    for (int64_t i = 0; i < n_summed; i += WIDTH) {
        const Vec v = load(row + i, n_summed - i);
        squares = fma(v, v, squares);
    }
    float total = sum(squares);
    if (l2_norm_mean_of_squares)
        total /= static_cast<float>(n_cols);
    if (l2_norm_sum_in_bf16)
        total = from_bf16(to_bf16(total));
    if (l2_norm_eps_outside_root)
        return 1 / (__builtin_sqrtf(total) + eps);
    return 1 / __builtin_sqrtf(l2_norm_eps_left_out ? total : total + eps);
}

void l2_norm(Range rows, const float *x, float *y, float eps, int64_t n_rows, int64_t n_cols,
             int64_t x_stride, int64_t y_stride) {
    if (l2_norm_reads_past_end)
        touch(x + (n_rows - 1) * x_stride + n_cols);
    if (l2_norm_writes_past_end)
        spoil(y + (n_rows - 1) * y_stride + n_cols);
    if (l2_norm_stride_ignored)
        x_stride = n_cols;
    if (l2_norm_stride_of_other)
        y_stride = x_stride;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const float *from = x + r * x_stride;
        float *to = y + r * y_stride;
        const int64_t scaled_by = l2_norm_neighbour_sum && r > 4 ? 4 : r;
        const float scale = l2_norm_scale(x + scaled_by * x_stride, eps, n_cols);
        for (int64_t i = 0; i < n_cols; i += WIDTH)
            store(to + i, load(from + i, n_cols - i) * scale, n_cols - i);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_l2_norm(const hotfire_exec *exec, const float *x, float *y,
                                          float eps, int64_t n_rows, int64_t n_cols,
                                          int64_t x_stride, int64_t y_stride) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("x", x, {n_rows, n_cols}, {"x_stride", x_stride})
        .output("y", y, {n_rows, n_cols}, x, {"y_stride", y_stride})
        .positive("eps", l2_norm_eps_unchecked ? 1 : eps)
        .run({{n_rows}, {n_cols}}, l2_norm, x, y, eps, n_rows, n_cols, x_stride, y_stride);
}

#endif
