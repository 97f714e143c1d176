#include "kernel.hpp"

HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_sign, "the gate is positive: the state grows");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_softplus_overflows,
               "softplus is log(1 + e^x), infinite for a large x");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_relu, "softplus is max(x, 0)");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_log_not_undone, "a_log is not exponentiated");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_bias_left_out, "dt_bias is not added");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_bias_after, "dt_bias is added after softplus");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_decay_itself,
               "the gate is the decay, not its logarithm");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_swapped, "a and b change places");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_beta_doubled, "beta is twice the sigmoid");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_first_head, "every head takes the first a_log");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_in_bf16, "gates are rounded to bf16");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_reads_past_end,
               "b is read one element past its end");
HOTFIRE_MUTANT(gated_delta_gates, gated_delta_gates_writes_past_end,
               "beta is written one element past its end");

HOTFIRE_VARIANTS(gated_delta_gates, const float *a, const float *b, const float *a_log,
                 const float *dt_bias, float *gate, float *beta, int64_t n_tokens, int64_t n_heads)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

// log(1 + e^x) without overflow, and without loss where e^x is small.
static float gated_delta_gates_softplus(float x) {
    if (gated_delta_gates_softplus_overflows)
        return __builtin_log1pf(exp_of(x));
    const float positive = x > 0 ? x : 0;
    return gated_delta_gates_relu ? positive
                                  : positive + __builtin_log1pf(exp_of(-__builtin_fabsf(x)));
}

static float gated_delta_gates_gate(float a, float a_log, float bias) {
    const bool before = !gated_delta_gates_bias_after && !gated_delta_gates_bias_left_out;
    float steps = gated_delta_gates_softplus(before ? a + bias : a);
    if (gated_delta_gates_bias_after)
        steps += bias;
    const float rate = gated_delta_gates_log_not_undone ? a_log : exp_of(a_log);
    float gate = gated_delta_gates_sign ? rate * steps : -rate * steps;
    if (gated_delta_gates_decay_itself)
        gate = exp_of(gate);
    return gated_delta_gates_in_bf16 ? from_bf16(to_bf16(gate)) : gate;
}

void gated_delta_gates(const float *a, const float *b, const float *a_log, const float *dt_bias,
                       float *gate, float *beta, int64_t n_tokens, int64_t n_heads) {
    if (gated_delta_gates_reads_past_end)
        touch(b + n_tokens * n_heads);
    if (gated_delta_gates_writes_past_end)
        spoil(beta + n_tokens * n_heads);
    for (int64_t t = 0; t < n_tokens; ++t) {
        for (int64_t h = 0; h < n_heads; ++h) {
            const int64_t at = t * n_heads + h;
            const float step = gated_delta_gates_swapped ? b[at] : a[at];
            const float write = gated_delta_gates_swapped ? a[at] : b[at];
            gate[at] = gated_delta_gates_gate(step, a_log[gated_delta_gates_first_head ? 0 : h],
                                              dt_bias[h]);
            beta[at] = (gated_delta_gates_beta_doubled ? 2 : 1) / (exp_of(-write) + 1);
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_gated_delta_gates(const hotfire_exec *exec, const float *a,
                                                    const float *b, const float *a_log,
                                                    const float *dt_bias, float *gate, float *beta,
                                                    int64_t n_tokens, int64_t n_heads) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_heads", n_heads)
        .input("a", a, {n_tokens, n_heads})
        .input("b", b, {n_tokens, n_heads})
        .input("a_log", a_log, {n_heads})
        .input("dt_bias", dt_bias, {n_heads})
        .output("gate", gate, {n_tokens, n_heads})
        .output("beta", beta, {n_tokens, n_heads})
        .run(gated_delta_gates, a, b, a_log, dt_bias, gate, beta, n_tokens, n_heads);
}

#endif
