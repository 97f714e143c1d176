#define HOTFIRE_OPERATION "rms_norm_plus_one"
#include "rms_norm.hpp"

HOTFIRE_FAMILY_MUTANT(one_left_out, "the gain is weight, not 1 + weight");
HOTFIRE_FAMILY_MUTANT(one_added_to_product, "1 is added after the product, not to weight");
HOTFIRE_FAMILY_MUTANT(gain_in_bf16, "1 + weight is rounded to bf16");

HOTFIRE_VARIANTS(rms_norm_plus_one, Range tokens, const float *x, const float *weight, float *y, float eps,
                 int64_t n_tokens, int64_t n_embd)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Vec rms_norm_plus_one_gain(Vec weight) {
    if (one_left_out || one_added_to_product)
        return weight;
    if (!gain_in_bf16)
        return weight + 1.0f;
    float lanes[WIDTH];
    store(lanes, weight + 1.0f);
    for (float &lane : lanes)
        lane = from_bf16(to_bf16(lane));
    return load(lanes);
}

void rms_norm_plus_one(Range tokens, const float *x, const float *weight, float *y, float eps, int64_t n_tokens,
                       int64_t n_embd) {
    rms_norm_rows(tokens, x, y, eps, n_tokens, n_embd,
                  [weight](Vec scaled, int64_t, int64_t, int64_t from, int64_t n) {
                      const Vec out = scaled * rms_norm_plus_one_gain(load(weight + from, n));
                      return one_added_to_product ? out + 1.0f : out;
                  });
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_rms_norm_plus_one(const hotfire_exec *exec, const float *x,
                                                    const float *weight, float *y, float eps,
                                                    int64_t n_tokens, int64_t n_embd) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_embd", n_embd)
        .input("x", x, {n_tokens, n_embd})
        .input("weight", weight, {n_embd})
        .output("y", y, {n_tokens, n_embd}, x)
        .positive("eps", eps_unchecked ? 1 : eps)
        .run({{n_tokens}, {n_embd}}, rms_norm_plus_one, x, weight, y, eps, n_tokens, n_embd);
}

#endif
