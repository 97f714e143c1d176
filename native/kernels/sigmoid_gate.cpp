#include "kernel.hpp"

HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_swapped, "x and gate change places");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_is_silu, "the gate is a SiLU, not a sigmoid");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_sign_lost, "the sigmoid is taken of -gate");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_hard, "the sigmoid is its straight line, cut to [0, 1]");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_of_first_row, "every row takes the first row's gate");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_tail_unwritten,
               "values past the last multiple of 8 are not written");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_gate_reads_past_end,
               "gate is read one element past its end");
HOTFIRE_MUTANT(sigmoid_gate, sigmoid_gate_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(sigmoid_gate, Range rows, const float *x, const float *gate, float *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec sigmoid_gate_of(Vec x, Vec gate) {
    if (sigmoid_gate_hard)
        return x * (splat(1) - max(splat(0), splat(1) - max(splat(0), gate * 0.25f + 0.5f)));
    const Vec out = x / (exp(sigmoid_gate_sign_lost ? gate : splat(0) - gate) + 1.0f);
    return sigmoid_gate_is_silu ? out * gate : out;
}

void sigmoid_gate(Range rows, const float *x, const float *gate, float *y, int64_t n_rows, int64_t n_cols) {
    if (sigmoid_gate_reads_past_end)
        touch(x + n_rows * n_cols);
    if (sigmoid_gate_gate_reads_past_end)
        touch(gate + n_rows * n_cols);
    if (sigmoid_gate_writes_past_end)
        spoil(y + n_rows * n_cols);
    const int64_t n_written = sigmoid_gate_tail_unwritten ? n_cols / 8 * 8 : n_cols;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const float *gates = gate + (sigmoid_gate_of_first_row ? 0 : r) * n_cols;
        for (int64_t i = 0; i < n_written; i += WIDTH) {
            const int64_t n = n_written - i;
            const Vec v = load(x + r * n_cols + i, n), g = load(gates + i, n);
            const Vec out = sigmoid_gate_swapped ? sigmoid_gate_of(g, v) : sigmoid_gate_of(v, g);
            store(y + r * n_cols + i, out, n);
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_sigmoid_gate(const hotfire_exec *exec, const float *x,
                                               const float *gate, float *y, int64_t n_rows,
                                               int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("x", x, {n_rows, n_cols})
        .input("gate", gate, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols}, x)
        .run({{n_rows}, {4, n_cols}}, sigmoid_gate, x, gate, y, n_rows, n_cols);
}

#endif
