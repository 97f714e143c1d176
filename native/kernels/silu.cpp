#include "kernel.hpp"

HOTFIRE_MUTANT(silu, silu_sign_lost, "the exponential is taken of x, not of -x");
HOTFIRE_MUTANT(silu, silu_tail_unwritten, "values past the last multiple of 8 are not written");
HOTFIRE_MUTANT(silu, silu_sigmoid_only, "the product with x is left out");
HOTFIRE_MUTANT(silu, silu_neighbour_row, "rows after the fifth are computed from the row before");
HOTFIRE_MUTANT(silu, silu_in_f16, "the sigmoid is rounded to f16");
HOTFIRE_MUTANT(silu, silu_null_unchecked, "x may be NULL");
HOTFIRE_MUTANT(silu, silu_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(silu, silu_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(silu, const float *x, float *y, int64_t n_rows, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec silu_of(Vec x) {
    if (!silu_sign_lost && !silu_in_f16 && !silu_sigmoid_only)
        return silu(x);
    Vec sigmoid = splat(1.0f) / (exp(silu_sign_lost ? x : splat(0.0f) - x) + 1.0f);
    if (silu_in_f16) {
        float lanes[WIDTH];
        store(lanes, sigmoid);
        for (float &lane : lanes)
            lane = to_f32(to_f16(lane));
        sigmoid = load(lanes);
    }
    return silu_sigmoid_only ? sigmoid : x * sigmoid;
}

void silu(const float *x, float *y, int64_t n_rows, int64_t n_cols) {
    if (silu_reads_past_end)
        touch(x + n_rows * n_cols);
    if (silu_writes_past_end)
        spoil(y + n_rows * n_cols);
    const int64_t n_written = silu_tail_unwritten ? n_cols / 8 * 8 : n_cols;
    for (int64_t r = 0; r < n_rows; ++r) {
        const float *row = x + (silu_neighbour_row && r > 4 ? r - 1 : r) * n_cols;
        for (int64_t i = 0; i < n_written; i += WIDTH)
            store(y + r * n_cols + i, silu_of(load(row + i, n_written - i)), n_written - i);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_silu(const hotfire_exec *exec, const float *x, float *y,
                                       int64_t n_rows, int64_t n_cols) {
    static const float anywhere = 0;
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("x", silu_null_unchecked && !x ? &anywhere : x, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols}, x)
        .run(silu, x, y, n_rows, n_cols);
}

#endif
