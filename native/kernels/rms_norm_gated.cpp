#define HOTFIRE_OPERATION "rms_norm_gated"
#include "rms_norm.hpp"

HOTFIRE_FAMILY_MUTANT(weight_plus_one, "the gain is 1 + weight, not weight");
HOTFIRE_FAMILY_MUTANT(gate_is_sigmoid, "the gate is a sigmoid, not a SiLU");
HOTFIRE_FAMILY_MUTANT(gate_left_out, "the gate is not applied");
HOTFIRE_FAMILY_MUTANT(gate_of_first_row, "every row takes the first row's gate");
HOTFIRE_FAMILY_MUTANT(gate_reads_past_end, "gate is read one element past its end");

HOTFIRE_VARIANTS(rms_norm_gated, Range tokens, const float *x, const float *weight, const float *gate, float *y,
                 float eps, int64_t n_tokens, int64_t n_embd)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec rms_norm_gated_factor(Vec gate) {
    if (gate_left_out)
        return splat(1);
    return gate_is_sigmoid ? splat(1) / (exp(splat(0) - gate) + 1.0f) : silu(gate);
}

void rms_norm_gated(Range tokens, const float *x, const float *weight, const float *gate, float *y, float eps,
                    int64_t n_tokens, int64_t n_embd) {
    if (gate_reads_past_end)
        touch(gate + n_tokens * n_embd);
    rms_norm_rows(tokens, x, y, eps, n_tokens, n_embd,
                  [=](Vec scaled, int64_t t, int64_t i, int64_t from, int64_t n) {
                      const float *mine = gate + (gate_of_first_row ? 0 : t) * n_embd + i;
                      const Vec gain = load(weight + from, n);
                      return scaled * (weight_plus_one ? gain + 1.0f : gain) *
                             rms_norm_gated_factor(load(mine, n));
                  });
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_rms_norm_gated(const hotfire_exec *exec, const float *x,
                                                 const float *weight, const float *gate, float *y,
                                                 float eps, int64_t n_tokens, int64_t n_embd) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_embd", n_embd)
        .input("x", x, {n_tokens, n_embd})
        .input("weight", weight, {n_embd})
        .input("gate", gate, {n_tokens, n_embd})
        .output("y", y, {n_tokens, n_embd}, x)
        .positive("eps", eps_unchecked ? 1 : eps)
        .run({{n_tokens}, {n_embd}}, rms_norm_gated, x, weight, gate, y, eps, n_tokens, n_embd);
}

#endif
