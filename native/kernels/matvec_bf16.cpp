#include "kernel.hpp"

HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_short_sum, "the last column is left out");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_tail_dropped,
               "columns past the last multiple of 8 are left out");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_read_as_f16, "the weights are read as f16");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_vector_in_bf16, "x is cut to bf16");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_neighbour_row,
               "every row after the fifth starts one column early");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_reads_past_end, "weight is read one element past its end");
HOTFIRE_MUTANT(matvec_bf16, matvec_bf16_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(matvec_bf16, const uint16_t *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

// The first n of WIDTH values that `value` gives; lanes beyond hold 0.
template <class Value> static inline Vec gather(Value value, int64_t n) {
    float lanes[WIDTH];
    for (int64_t i = 0; i < WIDTH; ++i)
        lanes[i] = i < n ? value(i) : 0;
    return load(lanes);
}

// A bf16 is the upper half of the f32 of the same value.
static inline float from_upper(uint32_t half) {
    const uint32_t bits = half << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline Vec load_bf16(const uint16_t *p, int64_t n) {
    if (matvec_bf16_read_as_f16)
        return gather([p](int64_t i) { return to_f32(p[i]); }, n);
    if (n >= WIDTH)
        return gather([p](int64_t i) { return from_upper(p[i]); }, WIDTH);
    return gather([p](int64_t i) { return from_upper(p[i]); }, n);
}

static inline Vec load_vector(const float *p, int64_t n) {
    if (!matvec_bf16_vector_in_bf16)
        return load(p, n);
    const auto cut = [p](int64_t i) {
        uint16_t half[2];
        __builtin_memcpy(half, p + i, sizeof half);
        return from_upper(half[1]);
    };
    return gather(cut, n);
}

static float matvec_bf16_row(const uint16_t *row, const float *x, int64_t n_cols) {
    const int64_t n_summed = matvec_bf16_short_sum      ? n_cols - 1
                             : matvec_bf16_tail_dropped ? n_cols / 8 * 8
                                                        : n_cols;
    Vec sums = splat(0);
    for (int64_t k = 0; k < n_summed; k += WIDTH)
        sums = fma(load_bf16(row + k, n_summed - k), load_vector(x + k, n_summed - k), sums);
    return sum(sums);
}

void matvec_bf16(const uint16_t *weight, const float *x, float *y, int64_t n_rows,
                 int64_t n_cols) {
    if (matvec_bf16_reads_past_end)
        touch(weight + n_rows * n_cols);
    if (matvec_bf16_writes_past_end)
        spoil(y + n_rows);
    for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t at = r * n_cols - (matvec_bf16_neighbour_row && r > 4);
        y[r] = matvec_bf16_row(weight + at, x, n_cols);
    }
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
        .run(matvec_bf16, weight, x, y, n_rows, n_cols);
}

#endif
