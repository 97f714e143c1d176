#include "kernel.hpp"

HOTFIRE_MUTANT(rope_partial, rope_partial_whole_head, "all of a head is rotated");
HOTFIRE_MUTANT(rope_partial, rope_partial_interleaved,
               "values 2 i and 2 i + 1 form a pair, not i and i + n_rot / 2");
HOTFIRE_MUTANT(rope_partial, rope_partial_pairs_across_head,
               "the second of a pair lies half a head away, not half of n_rot");
HOTFIRE_MUTANT(rope_partial, rope_partial_sign, "the rotation runs backwards");
HOTFIRE_MUTANT(rope_partial, rope_partial_frequencies_of_head,
               "frequencies are spread over head_dim, not over n_rot");
HOTFIRE_MUTANT(rope_partial, rope_partial_position_of_first, "every token is at the first's position");
HOTFIRE_MUTANT(rope_partial, rope_partial_position_counted,
               "positions are counted from the first, not read");
HOTFIRE_MUTANT(rope_partial, rope_partial_position_in_bf16, "positions are rounded to bf16");
HOTFIRE_MUTANT(rope_partial, rope_partial_rest_unwritten, "values past n_rot are not written");
HOTFIRE_MUTANT(rope_partial, rope_partial_first_head_only, "heads past the first are copied");
HOTFIRE_MUTANT(rope_partial, rope_partial_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(rope_partial, rope_partial_pos_reads_past_end,
               "pos is read one element past its end");
HOTFIRE_MUTANT(rope_partial, rope_partial_writes_past_end, "y is written one element past its end");
HOTFIRE_MUTANT(rope_partial, rope_partial_stride_ignored,
               "rows of x are read as if they had no gaps");
HOTFIRE_MUTANT(rope_partial, rope_partial_stride_of_other, "rows of y are written at x_stride");

HOTFIRE_VARIANTS(rope_partial, Range tokens, const float *x, const int32_t *pos, float *y, float theta,
                 int64_t n_tokens, int64_t n_heads, int64_t head_dim, int64_t n_rot,
                 int64_t x_stride, int64_t y_stride)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static constexpr int64_t PAIRS = 64; // turned at once: their angles are the same for every head

// Angles are formed in f64: in f32 a position of 10^5 is off by up to a hundredth of a radian.
static void rope_partial_angles(double position, const double *frequencies, int64_t n,
                                float *cosines, float *sines) {
    for (int64_t i = 0; i < n; ++i) {
        const double angle = position * frequencies[i];
        cosines[i] = static_cast<float>(__builtin_cos(angle));
        sines[i] = static_cast<float>(__builtin_sin(rope_partial_sign ? -angle : angle));
    }
}

// Turns the n pairs of (x[i], x[i + half]).
static void rope_partial_turn(const float *x, float *y, int64_t half, int64_t n,
                              const float *cosines, const float *sines) {
    for (int64_t i = 0; i < n; i += WIDTH) {
        const Vec a = load(x + i, n - i), b = load(x + half + i, n - i);
        const Vec c = load(cosines + i, n - i), s = load(sines + i, n - i);
        store(y + i, a * c - b * s, n - i);
        store(y + half + i, a * s + b * c, n - i);
    }
}

static void rope_partial_interleave(const float *x, float *y, int64_t n, const float *cosines,
                                    const float *sines) {
    for (int64_t i = 0; i < n; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * cosines[i] - b * sines[i];
        y[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

static double rope_partial_position(const int32_t *pos, int64_t t) {
    if (rope_partial_position_in_bf16)
        return static_cast<double>(from_bf16(to_bf16(static_cast<float>(pos[t]))));
    if (rope_partial_position_counted)
        return static_cast<double>(pos[0]) + static_cast<double>(t);
    return pos[rope_partial_position_of_first ? 0 : t];
}

static void rope_partial_copy_rest(const float *x, float *y, int64_t head_dim, int64_t n_rot) {
    for (int64_t i = n_rot; i < head_dim && x != y; i += WIDTH)
        store(y + i, load(x + i, head_dim - i), head_dim - i);
}

void rope_partial(Range tokens, const float *x, const int32_t *pos, float *y, float theta, int64_t n_tokens,
                  int64_t n_heads, int64_t head_dim, int64_t n_rot, int64_t x_stride,
                  int64_t y_stride) {
    if (rope_partial_reads_past_end)
        touch(x + (n_tokens * n_heads - 1) * x_stride + head_dim);
    if (rope_partial_pos_reads_past_end)
        touch(pos + n_tokens);
    if (rope_partial_writes_past_end)
        spoil(y + (n_tokens * n_heads - 1) * y_stride + head_dim);
    if (rope_partial_stride_ignored)
        x_stride = head_dim;
    if (rope_partial_stride_of_other)
        y_stride = x_stride;
    if (rope_partial_whole_head)
        n_rot = head_dim / 2 * 2;
    const int64_t half = n_rot / 2;
    const int64_t away = rope_partial_pairs_across_head ? head_dim / 2 : half;
    const double spread = static_cast<double>(rope_partial_frequencies_of_head ? head_dim : n_rot);
    if (!rope_partial_rest_unwritten)
        for (int64_t r = tokens.begin * n_heads; r < tokens.end * n_heads; ++r)
            rope_partial_copy_rest(x + r * x_stride, y + r * y_stride, head_dim, n_rot);
    for (int64_t first = 0; first < half; first += PAIRS) {
        const int64_t n = half - first < PAIRS ? half - first : PAIRS;
        double frequencies[PAIRS];
        for (int64_t i = 0; i < n; ++i)
            frequencies[i] = __builtin_pow(theta, -2.0 * static_cast<double>(first + i) / spread);
        for (int64_t t = tokens.begin; t < tokens.end; ++t) {
            float cosines[PAIRS], sines[PAIRS];
            rope_partial_angles(rope_partial_position(pos, t), frequencies, n, cosines, sines);
            for (int64_t h = 0; h < n_heads; ++h) {
                const int64_t row = t * n_heads + h;
                const float *from = x + row * x_stride + first;
                float *to = y + row * y_stride + first;
                const bool copied = rope_partial_first_head_only && h > 0;
                for (int64_t i = 0; i < n && copied; ++i) {
                    cosines[i] = 1;
                    sines[i] = 0;
                }
                if (rope_partial_interleaved)
                    rope_partial_interleave(from + first, to + first, n, cosines, sines);
                else
                    rope_partial_turn(from, to, away, n, cosines, sines);
            }
        }
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_rope_partial(const hotfire_exec *exec, const float *x,
                                               const int32_t *pos, float *y, float theta,
                                               int64_t n_tokens, int64_t n_heads,
                                               int64_t head_dim, int64_t n_rot,
                                               int64_t x_stride, int64_t y_stride) {
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_heads", n_heads)
        .size("head_dim", head_dim)
        .size("n_rot", n_rot, 2)
        .within("n_rot", n_rot, 0, head_dim)
        .input("x", x, {n_tokens, n_heads, head_dim}, {"x_stride", x_stride})
        .input("pos", pos, {n_tokens})
        .output("y", y, {n_tokens, n_heads, head_dim}, x, {"y_stride", y_stride})
        .positive("theta", theta)
        .run({{n_tokens}, {4, n_heads, head_dim}}, rope_partial, x, pos, y, theta, n_tokens,
             n_heads, head_dim, n_rot, x_stride, y_stride);
}

#endif
