#include "kernel.hpp"

HOTFIRE_MUTANT(swiglu, swiglu_swapped, "gate and up change places");
HOTFIRE_MUTANT(swiglu, swiglu_up_gated_too, "the SiLU is taken of the product");
HOTFIRE_MUTANT(swiglu, swiglu_sigmoid_only, "the gate is a sigmoid, not a SiLU");
HOTFIRE_MUTANT(swiglu, swiglu_gelu, "the gate is GELU's x sigmoid(1.702 x)");
HOTFIRE_MUTANT(swiglu, swiglu_tail_unwritten, "values past the last multiple of 8 are not written");
HOTFIRE_MUTANT(swiglu, swiglu_neighbour_up, "rows after the fifth take up from the row before");
HOTFIRE_MUTANT(swiglu, swiglu_gate_in_bf16, "the SiLU is rounded to bf16");
HOTFIRE_MUTANT(swiglu, swiglu_reads_past_end, "gate is read one element past its end");
HOTFIRE_MUTANT(swiglu, swiglu_up_reads_past_end, "up is read one element past its end");
HOTFIRE_MUTANT(swiglu, swiglu_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(swiglu, Range rows, const float *gate, const float *up, float *y, int64_t n_rows,
                 int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec swiglu_of(Vec gate, Vec up) {
    if (swiglu_up_gated_too)
        return silu(gate * up);
    if (swiglu_sigmoid_only)
        return up / (exp(splat(0) - gate) + 1.0f);
    if (swiglu_gelu)
        return gate / (exp(gate * -1.702f) + 1.0f) * up;
    Vec weight = silu(gate);
    if (swiglu_gate_in_bf16) {
        float lanes[WIDTH];
        store(lanes, weight);
        for (float &lane : lanes)
            lane = from_bf16(to_bf16(lane));
        weight = load(lanes);
    }
    return weight * up;
}

void swiglu(Range rows, const float *gate, const float *up, float *y, int64_t n_rows, int64_t n_cols) {
    if (swiglu_reads_past_end)
        touch(gate + n_rows * n_cols);
    if (swiglu_up_reads_past_end)
        touch(up + n_rows * n_cols);
    if (swiglu_writes_past_end)
        spoil(y + n_rows * n_cols);
    const int64_t n_written = swiglu_tail_unwritten ? n_cols / 8 * 8 : n_cols;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int64_t at = r * n_cols, up_at = (r - (swiglu_neighbour_up && r > 4)) * n_cols;
        for (int64_t i = 0; i < n_written; i += WIDTH) {
            const int64_t n = n_written - i;
            const Vec g = load(gate + at + i, n), u = load(up + up_at + i, n);
            store(y + at + i, swiglu_swapped ? swiglu_of(u, g) : swiglu_of(g, u), n);
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_swiglu(const hotfire_exec *exec, const float *gate,
                                         const float *up, float *y, int64_t n_rows,
                                         int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols)
        .input("gate", gate, {n_rows, n_cols})
        .input("up", up, {n_rows, n_cols})
        .output("y", y, {n_rows, n_cols}, gate)
        .run({{n_rows}, {4, n_cols}}, swiglu, gate, up, y, n_rows, n_cols);
}

#endif
