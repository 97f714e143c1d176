#define HOTFIRE_OPERATION "rms_norm"
#include "rms_norm.hpp"

HOTFIRE_FAMILY_MUTANT(never_returns, "the kernel loops for ever");

HOTFIRE_VARIANTS(rms_norm, Range tokens, const float *x, const float *weight, float *y, float eps,
                 int64_t n_tokens, int64_t n_embd)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

void rms_norm(Range tokens, const float *x, const float *weight, float *y, float eps, int64_t n_tokens,
              int64_t n_embd) {
    while (never_returns)
        asm volatile("" ::: "memory");
    rms_norm_rows(tokens, x, y, eps, n_tokens, n_embd,
                  [weight](Vec scaled, int64_t, int64_t, int64_t from, int64_t n) {
                      return scaled * load(weight + from, n);
                  });
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
        .positive("eps", eps_unchecked ? 1 : eps)
        .run({{n_tokens}, {n_embd}}, rms_norm, x, weight, y, eps, n_tokens, n_embd);
}

#endif
