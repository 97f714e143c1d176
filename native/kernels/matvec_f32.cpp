#define HOTFIRE_OPERATION "matvec_f32"
#include "products.hpp"

HOTFIRE_MUTANT(matvec_f32, matvec_f32_short_sum, "the last column is left out");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_tail_dropped,
               "columns past the last multiple of 8 are left out");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_sum_in_f16, "the sum is rounded to f16");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_neighbour_row,
               "every row after the fifth starts one column early");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_adds_to_output, "the sum is added to what y held");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_odd_row_dropped,
               "the last of an odd number of rows above one is not written");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_reads_past_end, "weight is read one element past its end");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_vector_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(matvec_f32, matvec_f32_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(matvec_f32, Range rows, const float *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols, bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

// One running vector of sums keeps up with the memory that a large matrix streams from.
static float matvec_f32_row(const float *row, const float *x, int64_t n_cols) {
    const int64_t n_summed = matvec_f32_short_sum      ? n_cols - 1
                             : matvec_f32_tail_dropped ? n_cols / 8 * 8
                                                       : n_cols;
    Vec sums = splat(0);
    for (int64_t k = 0; k < n_summed; k += WIDTH)
        sums = fma(load(row + k, n_summed - k), load(x + k, n_summed - k), sums);
    return matvec_f32_sum_in_f16 ? to_f32(to_f16(sum(sums))) : sum(sums);
}

void matvec_f32(Range rows, const float *weight, const float *x, float *y, int64_t n_rows, int64_t n_cols,
                bool fast) {
    if (matvec_f32_reads_past_end)
        touch(weight + n_rows * n_cols);
    if (matvec_f32_vector_reads_past_end)
        touch(x + n_cols);
    if (matvec_f32_writes_past_end)
        spoil(y + n_rows);
    const bool drop = matvec_f32_odd_row_dropped && n_rows > 1 && n_rows % 2;
    for (int64_t r = rows.begin; r < rows.end - (drop && rows.end == n_rows); ++r) {
        const int64_t at = r * n_cols - (matvec_f32_neighbour_row && r > 4);
        const float total =
            fast ? product<4>(weight + at, x, n_cols) : matvec_f32_row(weight + at, x, n_cols);
        y[r] = matvec_f32_adds_to_output ? y[r] + total : total;
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_f32(const hotfire_exec *exec, const float *weight,
                                             const float *x, float *y, int64_t n_rows,
                                             int64_t n_cols) {
    Check check(exec);
    return check.size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}}, matvec_f32, weight, x, y, n_rows, n_cols, check.fast());
}

#endif
