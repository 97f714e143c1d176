#include "kernel.hpp"

HOTFIRE_MUTANT(argmax, argmax_last_of_equals, "of equal maxima the last is given");
HOTFIRE_MUTANT(argmax, argmax_tail_dropped, "columns past the last multiple of 8 are not seen");
HOTFIRE_MUTANT(argmax, argmax_starts_from_zero, "a row below 0 everywhere gives column 0");
HOTFIRE_MUTANT(argmax, argmax_of_magnitude, "the greatest |x| is sought");
HOTFIRE_MUTANT(argmax, argmax_in_bf16, "values are compared as bf16");
HOTFIRE_MUTANT(argmax, argmax_counts_all_rows, "the index counts from the first row's start");
HOTFIRE_MUTANT(argmax, argmax_lane_of_vector, "the index is that in its run of 8");
HOTFIRE_MUTANT(argmax, argmax_neighbour_row, "rows after the fifth answer for the row before");
HOTFIRE_MUTANT(argmax, argmax_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(argmax, argmax_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(argmax, const float *x, int32_t *y, int64_t n_rows, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float argmax_key(float value) {
    return argmax_of_magnitude ? __builtin_fabsf(value)
           : argmax_in_bf16    ? from_bf16(to_bf16(value))
                               : value;
}

// First the greatest value, then the first place that holds it.
static int64_t argmax_row(const float *x, int64_t n_cols) {
    const float least = -__builtin_inff();
    float top = argmax_starts_from_zero ? 0 : least;
    if (argmax_of_magnitude || argmax_in_bf16) {
        for (int64_t i = 0; i < n_cols; ++i)
            top = argmax_key(x[i]) > top ? argmax_key(x[i]) : top;
    } else {
        Vec tops = splat(top);
        for (int64_t i = 0; i < n_cols; i += WIDTH)
            tops = max(load(x + i, n_cols - i, least), tops);
        top = largest(tops);
    }
    int64_t found = 0;
    for (int64_t i = 0; i < n_cols; ++i) {
        if (argmax_key(x[i]) == top) {
            found = i;
            if (!argmax_last_of_equals)
                break;
        }
    }
    return argmax_lane_of_vector ? found % 8 : found;
}

void argmax(const float *x, int32_t *y, int64_t n_rows, int64_t n_cols) {
    if (argmax_reads_past_end)
        touch(x + n_rows * n_cols);
    if (argmax_writes_past_end)
        spoil(y + n_rows);
    const int64_t n_seen = argmax_tail_dropped && n_cols > 8 ? n_cols / 8 * 8 : n_cols;
    for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t from = r - (argmax_neighbour_row && r > 4);
        const int64_t found = argmax_row(x + from * n_cols, n_seen);
        y[r] = static_cast<int32_t>(argmax_counts_all_rows ? found + r * n_cols : found);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_argmax(const hotfire_exec *exec, const float *x, int32_t *y,
                                         int64_t n_rows, int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .within("n_cols", n_cols, 1, INT32_MAX)
        .input("x", x, {n_rows, n_cols})
        .output("y", y, {n_rows})
        .run(argmax, x, y, n_rows, n_cols);
}

#endif
