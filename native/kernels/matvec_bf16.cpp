#define HOTFIRE_OPERATION "matvec_bf16"
#include "products_wide.hpp"

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
                 int64_t n_cols)

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

static float matvec_bf16_row(const uint16_t *row, const float *x, int64_t n_summed) {
    Vec sums = splat(0);
    for (int64_t k = 0; k < n_summed; k += WIDTH)
        sums = fma(matvec_bf16_weights(row + k, n_summed - k),
                   matvec_bf16_vector(x + k, n_summed - k), sums);
    return sum(sums);
}

namespace {

struct Vector {
    const uint16_t *weight;
    const float *x;
    float *y;
    int64_t n_cols;

    const uint16_t *row(int64_t r) const {
        return weight + r * n_cols - (matvec_bf16_neighbour_row && r > 4);
    }
    const float *column(int64_t) const { return x; }
    void put(int64_t, int64_t r, float total) const {
        y[r] = matvec_bf16_sum_in_bf16 ? from_bf16(to_bf16(total)) : total;
    }
};

} // namespace

void matvec_bf16(Range rows, const uint16_t *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols) {
    if (matvec_bf16_reads_past_end)
        touch(weight + n_rows * n_cols);
    if (matvec_bf16_writes_past_end)
        spoil(y + n_rows);
    const int64_t n_summed = matvec_bf16_short_sum      ? n_cols - 1
                             : matvec_bf16_tail_dropped ? n_cols / 8 * 8
                                                        : n_cols;
    const Vector places = {weight, x, y, n_cols};
    const bool broken = matvec_bf16_read_as_f16 || matvec_bf16_vector_in_bf16;
    for (int64_t r = rows.begin; r < rows.end && broken; ++r)
        places.put(0, r, matvec_bf16_row(places.row(r), x, n_summed));
    if (!broken)
        multiply<uint16_t>(places, rows, {0, 1}, n_summed);
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_bf16(const hotfire_exec *exec, const uint16_t *weight,
                                              const float *x, float *y, int64_t n_rows,
                                              int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}, 16}, matvec_bf16, weight, x, y, n_rows, n_cols);
}

#endif
