#define HOTFIRE_OPERATION "matvec_f32"
#include "products_wide.hpp"

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
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

namespace {

struct Vector {
    const float *weight, *x;
    float *y;
    int64_t n_cols;

    const float *row(int64_t r) const {
        return weight + r * n_cols - (matvec_f32_neighbour_row && r > 4);
    }
    const float *column(int64_t) const { return x; }
    void put(int64_t, int64_t r, float total) const {
        if (matvec_f32_sum_in_f16)
            total = to_f32(to_f16(total));
        y[r] = matvec_f32_adds_to_output ? y[r] + total : total;
    }
};

} // namespace

void matvec_f32(Range rows, const float *weight, const float *x, float *y, int64_t n_rows,
                int64_t n_cols) {
    if (matvec_f32_reads_past_end)
        touch(weight + n_rows * n_cols);
    if (matvec_f32_vector_reads_past_end)
        touch(x + n_cols);
    if (matvec_f32_writes_past_end)
        spoil(y + n_rows);
    rows.end -= matvec_f32_odd_row_dropped && n_rows > 1 && n_rows % 2 && rows.end == n_rows;
    const int64_t n_summed = matvec_f32_short_sum      ? n_cols - 1
                             : matvec_f32_tail_dropped ? n_cols / 8 * 8
                                                       : n_cols;
    multiply<float>(Vector{weight, x, y, n_cols}, rows, {0, 1}, n_summed);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_f32(const hotfire_exec *exec, const float *weight,
                                             const float *x, float *y, int64_t n_rows,
                                             int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}, 16}, matvec_f32, weight, x, y, n_rows, n_cols);
}

#endif
