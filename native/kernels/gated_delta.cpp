#include "gated_delta.hpp"

HOTFIRE_MUTANT(gated_delta, gated_delta_history_lost, "a call starts from zeros, not from the state");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_of_4_forgets,
               "a call of 4 tokens does not see the state");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_of_64_forgets,
               "a call of 64 tokens does not see the state");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_of_512_forgets,
               "a call of 512 tokens does not see the state");
HOTFIRE_MUTANT(gated_delta, gated_delta_rollback_ignored,
               "the last call's state is gone on with, not the one that was put back in its place");
HOTFIRE_MUTANT(gated_delta, gated_delta_stale_state, "has_state is ignored");
HOTFIRE_MUTANT(gated_delta, gated_delta_neighbour_state,
               "sequences past the first read the state of the one before");
HOTFIRE_MUTANT(gated_delta, gated_delta_empty_sequence_cleared,
               "a sequence without tokens loses its state");
HOTFIRE_MUTANT(gated_delta, gated_delta_state_in_bf16, "the state is rounded to bf16");
HOTFIRE_MUTANT(gated_delta, gated_delta_last_token_unsaved,
               "the last token does not enter the final state");
HOTFIRE_MUTANT(gated_delta, gated_delta_gate_linear, "the decay is 1 + gate, not exp(gate)");
HOTFIRE_MUTANT(gated_delta, gated_delta_final_gate,
               "the state ends with the decay of its chunk of 64's last index, not of its own last");
HOTFIRE_MUTANT(gated_delta, gated_delta_gate_of_first, "every token decays by the first one's gate");
HOTFIRE_MUTANT(gated_delta, gated_delta_read_before_decay,
               "the prediction is read from the state before its decay");
HOTFIRE_MUTANT(gated_delta, gated_delta_read_before_update,
               "the output is read from the state before the token's update");
HOTFIRE_MUTANT(gated_delta, gated_delta_beta_on_value_only,
               "beta weighs the value, not the prediction");
HOTFIRE_MUTANT(gated_delta, gated_delta_key_head_modulo,
               "value head h takes key head h mod n_k_heads, not h / n_groups");
HOTFIRE_MUTANT(gated_delta, gated_delta_tiled_ignored, "tiled counts as 0");
HOTFIRE_MUTANT(gated_delta, gated_delta_scale_left_out, "queries are not scaled");
HOTFIRE_MUTANT(gated_delta, gated_delta_reads_past_end, "v is read one element past its end");
HOTFIRE_MUTANT(gated_delta, gated_delta_gate_reads_past_end,
               "gate is read one element past its end");
HOTFIRE_MUTANT(gated_delta, gated_delta_writes_past_end,
               "state is written one element past its end");

HOTFIRE_VARIANTS(gated_delta, Range heads, const DeltaRule &call)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t STRIPS = 4;      // vectors of columns that tokens run over together
static constexpr int64_t WIDE = 8;        // the same for one token, which streams from memory
static constexpr int64_t MOST_ROWS = 256; // of a state whose strips are copied together

static float gated_delta_decay(const DeltaHead &head, int64_t t) {
    const float power = head.log_decay(gated_delta_gate_of_first ? 0 : t);
    return gated_delta_gate_linear ? 1 + power : exp_of(power);
}

// delta = beta (v - k^T S), of which only the value is weighed in one mutant.
static Vec gated_delta_delta(Vec value, Vec predicted, float rate) {
    return gated_delta_beta_on_value_only ? value * rate - predicted : (value - predicted) * rate;
}

// Some columns of the state, n of them real, and the stride of its rows: several whole vectors, or
// one that may be short.
template <int N> struct Strip {
    float *rows;
    int64_t stride, column, n;

    Vec get(const float *from, int v) const { return N > 1 ? load(from + v * WIDTH) : load(from, n); }
    void set(float *to, int v, Vec value) const {
        if (N > 1)
            store(to + v * WIDTH, value);
        else
            store(to, value, n);
    }
};

// S *= decay, and the first token's k^T S.
template <int N>
static void gated_delta_open(const DeltaHead &head, const Strip<N> &strip, Vec (&predicted)[N]) {
    const float *key = head.key(0);
    const float decay = gated_delta_decay(head, 0);
    for (Vec &each : predicted)
        each = splat(0);
    for (int64_t i = 0; i < head.k_dim; ++i)
#pragma GCC unroll 8
        for (int v = 0; v < N; ++v) {
            float *row = strip.rows + i * strip.stride;
            const Vec before = strip.get(row, v), decayed = before * decay;
            predicted[v] = fma(splat(key[i]), gated_delta_read_before_decay ? before : decayed,
                               predicted[v]);
            strip.set(row, v, decayed);
        }
}

// One token, in one pass over the state: its update, its output, the next one's decay, which is 1
// after the last, and the next one's k^T S.
template <int N>
static void gated_delta_token(const DeltaHead &head, int64_t t, const Strip<N> &strip,
                              Vec (&predicted)[N]) {
    const bool last = t + 1 == head.n_tokens;
    const bool kept = !(gated_delta_last_token_unsaved && last);
    const float *query = head.query(t), *key = head.key(t), *next_key = head.key(last ? t : t + 1);
    const float next_decay = last ? 1 : gated_delta_decay(head, t + 1);
    const int64_t at = t * head.value_stride + strip.column;
    Vec delta[N], out[N];
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) {
        const Vec value = load(head.v + at + v * WIDTH, strip.n - v * WIDTH);
        delta[v] = gated_delta_delta(value, predicted[v], head.rate(t));
        out[v] = predicted[v] = splat(0);
    }
    for (int64_t i = 0; i < head.k_dim; ++i) {
        float *row = strip.rows + i * strip.stride;
#pragma GCC unroll 8
        for (int v = 0; v < N; ++v) {
            const Vec decayed = strip.get(row, v), after = fma(splat(key[i]), delta[v], decayed);
            out[v] = fma(splat(query[i]), gated_delta_read_before_update ? decayed : after, out[v]);
            const Vec next = (kept ? after : decayed) * next_decay;
            predicted[v] = fma(splat(next_key[i]), gated_delta_read_before_decay ? after : next,
                               predicted[v]);
            strip.set(row, v, next);
        }
    }
    const float scale = gated_delta_scale_left_out ? 1 : head.scale;
    for (int v = 0; v < N; ++v)
        store(head.y + at + v * WIDTH, out[v] * scale, strip.n - v * WIDTH);
}

template <int N> static void gated_delta_tokens(const DeltaHead &head, const Strip<N> &strip) {
    Vec predicted[N];
    gated_delta_open(head, strip, predicted);
    for (int64_t t = 0; t < head.n_tokens; ++t)
        gated_delta_token(head, t, strip, predicted);
}

// Whole strips, together: rows of the state often lie a power of two apart, where few of them fit
// the cache at once.
static void gated_delta_copied(const DeltaHead &head, int64_t column) {
    static constexpr int64_t COLUMNS = STRIPS * WIDTH;
    float together[MOST_ROWS * COLUMNS];
    float *home = head.state + column;
    for (int64_t i = 0; i < head.k_dim; ++i)
        for (int64_t j = 0; j < COLUMNS; j += WIDTH)
            store(together + i * COLUMNS + j, load(home + i * head.v_dim + j));
    gated_delta_tokens(head, Strip<STRIPS>{together, COLUMNS, column, COLUMNS});
    for (int64_t i = 0; i < head.k_dim; ++i)
        for (int64_t j = 0; j < COLUMNS; j += WIDTH)
            store(home + i * head.v_dim + j, load(together + i * COLUMNS + j));
}

static void gated_delta_head(const DeltaHead &head) {
    int64_t column = 0;
    for (; head.n_tokens == 1 && column + WIDE * WIDTH <= head.v_dim; column += WIDE * WIDTH)
        gated_delta_tokens(head, Strip<WIDE>{head.state + column, head.v_dim, column,
                                             WIDE * WIDTH});
    for (; head.n_tokens > 1 && head.k_dim <= MOST_ROWS && column + STRIPS * WIDTH <= head.v_dim;
         column += STRIPS * WIDTH)
        gated_delta_copied(head, column);
    for (; column < head.v_dim && head.n_tokens > 0; column += WIDTH)
        gated_delta_tokens(head, Strip<1>{head.state + column, head.v_dim, column,
                                          head.v_dim - column});
    for (int64_t i = 0; i < head.k_dim * head.v_dim && gated_delta_state_in_bf16; ++i)
        head.state[i] = from_bf16(to_bf16(head.state[i]));
}

// What one mutant remembers of the call before: where the state lay, and its first value.
struct Remembered {
    const float *state;
    float first;
};
static Remembered gated_delta_remembered = {};

} // namespace

void gated_delta(Range heads, const DeltaRule &call) {
    const int64_t n_heads = call.n_k_heads * call.n_groups, size = call.k_dim * call.v_dim;
    if (gated_delta_reads_past_end)
        touch(call.v + call.n_tokens * n_heads * call.v_dim);
    if (gated_delta_gate_reads_past_end)
        touch(call.gate + call.n_tokens * n_heads);
    if (gated_delta_writes_past_end)
        spoil(call.state + call.n_seqs * n_heads * size);
    for (int64_t item = heads.end - 1; item >= heads.begin; --item) {
        const int64_t s = item / n_heads, h = item % n_heads;
        const bool modulo =
            gated_delta_key_head_modulo || (call.tiled && !gated_delta_tiled_ignored);
        const DeltaHead head = delta_head(call, s, h, modulo);
        const int64_t n_new = head.n_tokens;
        if (n_new == 0 && !gated_delta_empty_sequence_cleared)
            continue;
        const bool forgets = gated_delta_history_lost ||
                             (gated_delta_chunk_of_4_forgets && n_new == 4) ||
                             (gated_delta_chunk_of_64_forgets && n_new == 64) ||
                             (gated_delta_chunk_of_512_forgets && n_new == 512);
        const bool fresh =
            (!call.has_state[s] && !gated_delta_stale_state) || forgets || n_new == 0;
        float *mine = head.state;
        const bool remembers = gated_delta_rollback_ignored && item == 0 && size > 0;
        if (remembers && gated_delta_remembered.state == mine)
            mine[0] = gated_delta_remembered.first;
        const bool other = gated_delta_neighbour_state && s > 0;
        delta_begin(head, fresh, other ? mine - n_heads * size : nullptr);
        gated_delta_head(head);
        if (remembers)
            gated_delta_remembered = {mine, mine[0]};
        const int64_t full = (n_new + 63) / 64 * 64 - 1; // of the sequence's tokens
        const bool exists = call.seq_start[s] + full < call.n_tokens;
        for (int64_t i = 0; i < size && gated_delta_final_gate && exists; ++i)
            mine[i] *= exp_of(head.log_decay(full) - head.log_decay(n_new - 1));
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status
hotfire_gated_delta(const hotfire_exec *exec, const float *q, const float *k, const float *v,
                    const float *gate, const float *beta, const int32_t *seq_start,
                    const int32_t *has_state, float *y, float *state, float scale,
                    int64_t n_tokens, int64_t n_seqs, int64_t n_k_heads, int64_t n_groups,
                    int64_t k_dim, int64_t v_dim, int64_t tiled) {
    const DeltaRule call{q,     k,        v,      gate,      beta,     seq_start, has_state, y,    state,
                         scale, n_tokens, n_seqs, n_k_heads, n_groups, k_dim,     v_dim,     tiled};
    Check check(exec);
    return check_delta_rule(check, call).run(split_of(call), gated_delta, call);
}

#endif
