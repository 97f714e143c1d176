#define HOTFIRE_OPERATION "matvec_bf16"
#include "products.hpp"

HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_short_sum, "the last column is left out");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_tail_dropped,
               "columns past the last multiple of 8 are left out");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_read_as_f16, "the weights are read as f16");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_vector_in_bf16, "x is rounded to bf16");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_sum_in_bf16, "the sum is rounded to bf16");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_neighbour_row,
               "every row after the fifth starts one column early");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_reads_past_end, "weight is read one element past its end");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(matvec_bf16, Range rows, const uint16_t *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols, bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec matvec_bf16_weights(const uint16_t *p, int64_t n) {
    if (!matvec_bf16_read_as_f16)
        return widen(p, n);
    float lanes[WIDTH] = {};
    for (int64_t i = 0; i < WIDTH && i < n; ++i)
        lanes[i] = to_f32(p[i]);
    return load(lanes);
}

static Vec matvec_bf16_vector(const float *p, int64_t n) {
    if (!matvec_bf16_vector_in_bf16)
        return load(p, n);
    float lanes[WIDTH] = {};
    for (int64_t i = 0; i < WIDTH && i < n; ++i)
        lanes[i] = from_bf16(to_bf16(p[i]));
    return load(lanes);
}

static float matvec_bf16_row(const uint16_t *row, const float *x, int64_t n_cols) {
    const int64_t n_summed = matvec_bf16_short_sum      ? n_cols - 1
                             : matvec_bf16_tail_dropped ? n_cols / 8 * 8
                                                        : n_cols;
    Vec sums = splat(0);
    for (int64_t k = 0; k < n_summed; k += WIDTH)
        sums = fma(matvec_bf16_weights(row + k, n_summed - k),
                   matvec_bf16_vector(x + k, n_summed - k), sums);
    return matvec_bf16_sum_in_bf16 ? from_bf16(to_bf16(sum(sums))) : sum(sums);
}

void matvec_bf16(Range rows, const uint16_t *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols, bool fast) {
    if (matvec_bf16_reads_past_end)
        touch(weight + n_rows * n_cols);
    if (matvec_bf16_writes_past_end)
        spoil(y + n_rows);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int64_t at = r * n_cols - (matvec_bf16_neighbour_row && r > 4);
        y[r] = fast ? product<4>(weight + at, x, n_cols) : matvec_bf16_row(weight + at, x, n_cols);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_bf16(const hotfire_exec *exec, const uint16_t *weight,
                                              const float *x, float *y, int64_t n_rows,
                                              int64_t n_cols) {
    Check check(exec);
    return check.size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}}, matvec_bf16, weight, x, y, n_rows, n_cols, check.fast());
}

#endif
