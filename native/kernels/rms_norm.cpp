#include "kernel.hpp"

HOTFIRE_MUTANT(rms_norm, rms_norm_short_sum, "the last element is left out of the mean");
HOTFIRE_MUTANT(rms_norm, rms_norm_tail_dropped,
               "elements past the last multiple of 8 are left out of the mean");
HOTFIRE_MUTANT(rms_norm, rms_norm_eps_outside_root, "eps is added to the root, not to the mean");
HOTFIRE_MUTANT(rms_norm, rms_norm_mean_in_f16, "the mean of squares is rounded to f16");
HOTFIRE_MUTANT(rms_norm, rms_norm_neighbour_scale,
               "rows after the fifth are scaled by the fifth row's mean");
HOTFIRE_MUTANT(rms_norm, rms_norm_weight_shifted,
               "after the first vector, weights are those of one column earlier");
HOTFIRE_MUTANT(rms_norm, rms_norm_eps_unchecked, "an eps of 0, below 0 or not finite is accepted");
HOTFIRE_MUTANT(rms_norm, rms_norm_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(rms_norm, rms_norm_writes_past_end, "y is written one element past its end");
HOTFIRE_MUTANT(rms_norm, rms_norm_never_returns, "the kernel loops for ever");

HOTFIRE_VARIANTS(rms_norm, const float *x, const float *weight, float *y, float eps,
                 int64_t n_tokens, int64_t n_embd)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static float rms_norm_scale(const float *row, float eps, int64_t n_embd) {
    const int64_t n_summed = rms_norm_short_sum      ? n_embd - 1
                             : rms_norm_tail_dropped ? n_embd / 8 * 8
                                                     : n_embd;
    Vec squares = splat(0);
    for (int64_t i = 0; i < n_summed; i += WIDTH) {
        const Vec v = load(row + i, n_summed - i);
        squares = fma(v, v, squares);
    }
    float mean = sum(squares) / static_cast<float>(n_embd);
    if (rms_norm_mean_in_f16)
        mean = to_f32(to_f16(mean));
    if (rms_norm_eps_outside_root)
        return 1 / (__builtin_sqrtf(mean) + eps);
    return 1 / __builtin_sqrtf(mean + eps);
}

void rms_norm(const float *x, const float *weight, float *y, float eps, int64_t n_tokens,
              int64_t n_embd) {
    while (rms_norm_never_returns)
        asm volatile("" ::: "memory");
    if (rms_norm_reads_past_end)
        touch(x + n_tokens * n_embd);
    if (rms_norm_writes_past_end)
        spoil(y + n_tokens * n_embd);
    float scale = 0;
    for (int64_t t = 0; t < n_tokens; ++t, x += n_embd, y += n_embd) {
        if (!(rms_norm_neighbour_scale && t > 4))
            scale = rms_norm_scale(x, eps, n_embd);
        for (int64_t i = 0; i < n_embd; i += WIDTH) {
            const int64_t from = rms_norm_weight_shifted && i > 0 ? i - 1 : i;
            const Vec gain = load(weight + from, n_embd - i);
            store(y + i, load(x + i, n_embd - i) * scale * gain, n_embd - i);
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_rms_norm(const hotfire_exec *exec, const float *x,
                                           const float *weight, float *y, float eps,
                                           int64_t n_tokens, int64_t n_embd) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_embd", n_embd)
        .input("x", x, {n_tokens, n_embd})
        .input("weight", weight, {n_embd})
        .output("y", y, {n_tokens, n_embd}, x)
        .positive("eps", rms_norm_eps_unchecked ? 1 : eps)
        .run(rms_norm, x, weight, y, eps, n_tokens, n_embd);
}

#endif
