#include "kernel.hpp"

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
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_history_lost,
               "a chunk's outputs do not see the state before the chunk");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_solved_once,
               "deltas of a chunk are corrected by the first guess of the earlier ones");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_final_gate,
               "the state decays by the gates up to the chunk's last index, not the sequence's");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_tail_unsaved,
               "tokens past the last full chunk do not enter the final state");
HOTFIRE_MUTANT(gated_delta, gated_delta_chunk_decay_restarts,
               "deltas of a chunk reach its end without decay");
HOTFIRE_MUTANT(gated_delta, gated_delta_reads_past_end, "v is read one element past its end");
HOTFIRE_MUTANT(gated_delta, gated_delta_gate_reads_past_end,
               "gate is read one element past its end");
HOTFIRE_MUTANT(gated_delta, gated_delta_writes_past_end,
               "state is written one element past its end");

HOTFIRE_VARIANTS(gated_delta, Range heads, const float *q, const float *k, const float *v, const float *gate,
                 const float *beta, const int32_t *seq_start, const int32_t *has_state, float *y,
                 float *state, float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_k_heads,
                 int64_t n_groups, int64_t k_dim, int64_t v_dim, int64_t tiled, bool fast)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t CHUNK = 64;
static constexpr int64_t CHUNKED_FROM = 16; // tokens from which a triangular solve pays

// One value head of one sequence; t counts from the sequence's first token of this call.
struct Head {
    const float *q, *k, *v, *gate, *beta;
    float *y, *state;
    int64_t key_stride, value_stride, gate_stride; // from one token to the next
    int64_t k_dim, v_dim, n_tokens;
    float scale;

    const float *query(int64_t t) const { return q + t * key_stride; }
    const float *key(int64_t t) const { return k + t * key_stride; }
    float rate(int64_t t) const { return beta[t * gate_stride]; }

    float decay(int64_t t) const {
        const float power = gate[(gated_delta_gate_of_first ? 0 : t) * gate_stride];
        return gated_delta_gate_linear ? 1 + power : exp_of(power);
    }
};

static float gated_delta_dot(const float *a, const float *b, int64_t n) {
    Vec sums = splat(0);
    for (int64_t i = 0; i < n; i += WIDTH)
        sums = fma(load(a + i, n - i), load(b + i, n - i), sums);
    return sum(sums);
}

// delta = beta (v - k^T S), of which only the value is weighed in one mutant.
static Vec gated_delta_delta(Vec value, Vec predicted, float rate) {
    return gated_delta_beta_on_value_only ? value * rate - predicted : (value - predicted) * rate;
}

// At most WIDTH columns of the state, n of them real, and the stride of its rows.
struct Strip {
    float *rows;
    int64_t stride, column, n;

    float *row(int64_t i) const { return rows + i * stride; }
};

// One token.
static void gated_delta_token(const Head &head, int64_t t, const Strip &strip) {
    const float *query = head.query(t), *key = head.key(t);
    const float decay = head.decay(t);
    const int64_t column = strip.column, n = strip.n;
    Vec predicted = splat(0), out = splat(0);
    for (int64_t i = 0; i < head.k_dim; ++i) {
        const Vec before = load(strip.row(i), n), decayed = before * decay;
        predicted = fma(splat(key[i]), gated_delta_read_before_decay ? before : decayed, predicted);
    }
    const Vec value = load(head.v + t * head.value_stride + column, n);
    const Vec delta = gated_delta_delta(value, predicted, head.rate(t));
    const bool kept = !(gated_delta_last_token_unsaved && t + 1 == head.n_tokens);
    for (int64_t i = 0; i < head.k_dim; ++i) {
        float *row = strip.row(i);
        const Vec before = load(row, n), decayed = before * decay;
        const Vec after = fma(splat(key[i]), delta, decayed);
        out = fma(splat(query[i]), gated_delta_read_before_update ? decayed : after, out);
        store(row, kept ? after : before, n);
    }
    const float scale = gated_delta_scale_left_out ? 1 : head.scale;
    store(head.y + t * head.value_stride + column, out * scale, n);
}

// What a chunk's tokens do to one another, the same for every column of the state.
struct Chunk {
    float solve[CHUNK][CHUNK];  // beta_i decay(j..i) k_i k_j, j < i
    float attend[CHUNK][CHUNK]; // scale decay(j..i) q_i k_j, j <= i
    float from_start[CHUNK];    // decay from the chunk's start through token i
    float to_end[CHUNK];        // decay from token j to the chunk's end
};

// Decays are products, not exponentials of differences of sums: nothing cancels.
static void gated_delta_relate(const Head &head, int64_t first, int64_t n, Chunk &chunk) {
    const float scale = gated_delta_scale_left_out ? 1 : head.scale;
    float whole = 1;
    for (int64_t i = 0; i < n; ++i) {
        const float decay = head.decay(first + i);
        whole *= decay;
        chunk.from_start[i] = whole;
        for (int64_t j = 0; j < i; ++j) {
            chunk.to_end[j] *= decay;
            const float near = gated_delta_dot(head.key(first + i), head.key(first + j), head.k_dim);
            const float seen =
                gated_delta_dot(head.query(first + i), head.key(first + j), head.k_dim);
            chunk.solve[i][j] = head.rate(first + i) * chunk.to_end[j] * near;
            chunk.attend[i][j] = scale * chunk.to_end[j] * seen;
        }
        chunk.to_end[i] = 1;
        chunk.attend[i][i] =
            scale * gated_delta_dot(head.query(first + i), head.key(first + i), head.k_dim);
    }
}

// (I + solve) delta = beta (v - decay k^T S) by forward substitution: the WY form, applied. Then
// the outputs from the state and the deltas, and the state at the chunk's end.
static void gated_delta_chunk(const Head &head, int64_t first, int64_t n_new, const Chunk &chunk,
                              const Strip &strip) {
    const int64_t column = strip.column, n = strip.n;
    const float scale = gated_delta_scale_left_out ? 1 : head.scale;
    Vec delta[CHUNK], guess[CHUNK];
    for (int64_t i = 0; i < n_new; ++i) {
        const float *query = head.query(first + i), *key = head.key(first + i);
        Vec predicted = splat(0), out = splat(0);
        for (int64_t d = 0; d < head.k_dim; ++d) {
            const Vec row = load(strip.row(d), n);
            predicted = fma(splat(key[d]), row, predicted);
            out = fma(splat(query[d]), row, out);
        }
        const float decay = gated_delta_chunk_history_lost ? 0 : chunk.from_start[i];
        const Vec value = load(head.v + (first + i) * head.value_stride + column, n);
        delta[i] = gated_delta_delta(value, predicted * decay, head.rate(first + i));
        if (gated_delta_chunk_solved_once)
            guess[i] = delta[i];
        for (int64_t j = 0; j < i; ++j)
            delta[i] = fma(splat(-chunk.solve[i][j]),
                           gated_delta_chunk_solved_once ? guess[j] : delta[j], delta[i]);
        out = out * (decay * scale);
        for (int64_t j = 0; j < i + !gated_delta_read_before_update; ++j)
            out = fma(splat(chunk.attend[i][j]), delta[j], out);
        store(head.y + (first + i) * head.value_stride + column, out, n);
    }
    const bool tail = gated_delta_chunk_tail_unsaved && n_new < CHUNK;
    const bool drop = gated_delta_last_token_unsaved && first + n_new == head.n_tokens;
    const float decay = chunk.from_start[(gated_delta_chunk_final_gate ? CHUNK : n_new) - 1];
    for (int64_t d = 0; d < head.k_dim && !tail; ++d)
        store(strip.row(d), load(strip.row(d), n) * decay, n);
    for (int64_t j = 0; j < n_new - drop && !tail; ++j) {
        const float *key = head.key(first + j);
        const float reach = gated_delta_chunk_decay_restarts ? 1 : chunk.to_end[j];
        for (int64_t d = 0; d < head.k_dim; ++d)
            store(strip.row(d), fma(splat(key[d] * reach), delta[j], load(strip.row(d), n)), n);
    }
}

// Runs tokens on each strip in turn. A strip of several is copied together first: rows of the state
// often lie a power of two apart, where few of them fit the cache at once.
template <class Run>
static void gated_delta_strips(const Head &head, int64_t n_new, Run run) {
    static constexpr int64_t MOST = 256;
    float together[MOST * WIDTH];
    const bool copied = n_new > 1 && head.k_dim <= MOST;
    for (int64_t column = 0; column < head.v_dim; column += WIDTH) {
        const int64_t n = head.v_dim - column;
        const Strip home{head.state + column, head.v_dim, column, n};
        const Strip strip = copied ? Strip{together, WIDTH, column, n} : home;
        for (int64_t i = 0; i < head.k_dim && copied; ++i)
            store(strip.row(i), load(home.row(i), n));
        run(strip);
        for (int64_t i = 0; i < head.k_dim && copied; ++i)
            store(home.row(i), load(strip.row(i)), n);
    }
}

static void gated_delta_head(const Head &head, bool chunked) {
    Chunk chunk = {};
    for (int64_t first = 0; first < head.n_tokens && chunked; first += CHUNK) {
        const int64_t left = head.n_tokens - first, n_new = left < CHUNK ? left : CHUNK;
        gated_delta_relate(head, first, n_new, chunk);
        gated_delta_strips(head, n_new, [&](const Strip &strip) {
            gated_delta_chunk(head, first, n_new, chunk, strip);
        });
    }
    if (!chunked)
        gated_delta_strips(head, head.n_tokens, [&](const Strip &strip) {
            for (int64_t t = 0; t < head.n_tokens; ++t)
                gated_delta_token(head, t, strip);
        });
    for (int64_t i = 0; i < head.k_dim * head.v_dim && gated_delta_state_in_bf16; ++i)
        head.state[i] = from_bf16(to_bf16(head.state[i]));
}

static void gated_delta_begin(float *state, const float *neighbour, bool fresh, int64_t size) {
    for (int64_t i = 0; i < size; ++i)
        state[i] = fresh ? 0 : gated_delta_neighbour_state ? neighbour[i] : state[i];
}

// What one mutant remembers of the call before: where the state lay, and its first value.
struct Remembered {
    const float *state;
    float first;
};
static Remembered gated_delta_remembered = {};

} // namespace

void gated_delta(Range heads, const float *q, const float *k, const float *v, const float *gate,
                 const float *beta, const int32_t *seq_start, const int32_t *has_state, float *y,
                 float *state, float scale, int64_t n_tokens, int64_t n_seqs, int64_t n_k_heads,
                 int64_t n_groups, int64_t k_dim, int64_t v_dim, int64_t tiled, bool fast) {
    const int64_t n_heads = n_k_heads * n_groups, size = k_dim * v_dim;
    if (gated_delta_reads_past_end)
        touch(v + n_tokens * n_heads * v_dim);
    if (gated_delta_gate_reads_past_end)
        touch(gate + n_tokens * n_heads);
    if (gated_delta_writes_past_end)
        spoil(state + n_seqs * n_heads * size);
    for (int64_t item = heads.end - 1; item >= heads.begin; --item) {
        const int64_t s = item / n_heads, h = item % n_heads;
        const int64_t first = seq_start[s], n_new = seq_start[s + 1] - first;
        if (n_new == 0 && !gated_delta_empty_sequence_cleared)
            continue;
        const bool forgets = gated_delta_history_lost ||
                             (gated_delta_chunk_of_4_forgets && n_new == 4) ||
                             (gated_delta_chunk_of_64_forgets && n_new == 64) ||
                             (gated_delta_chunk_of_512_forgets && n_new == 512);
        const bool fresh = (!has_state[s] && !gated_delta_stale_state) || forgets || n_new == 0;
        const bool modulo = gated_delta_key_head_modulo || (tiled && !gated_delta_tiled_ignored);
        const int64_t key_head = modulo ? h % n_k_heads : h / n_groups;
        const int64_t keys = (first * n_k_heads + key_head) * k_dim;
        const int64_t values = (first * n_heads + h) * v_dim, gates = first * n_heads + h;
        float *mine = state + (s * n_heads + h) * size;
        const bool remembers = gated_delta_rollback_ignored && item == 0 && size > 0;
        if (remembers && gated_delta_remembered.state == mine)
            mine[0] = gated_delta_remembered.first;
        gated_delta_begin(mine, s > 0 ? mine - n_heads * size : mine, fresh, size);
        gated_delta_head({q + keys, k + keys, v + values, gate + gates, beta + gates, y + values,
                          mine, n_k_heads * k_dim, n_heads * v_dim, n_heads, k_dim, v_dim,
                          n_new, scale},
                         fast && n_new >= CHUNKED_FROM);
        if (remembers)
            gated_delta_remembered = {mine, mine[0]};
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
    Check check(exec);
    return check.within("n_tokens", n_tokens, 0, INT32_MAX)
        .within("n_seqs", n_seqs, 1, INT32_MAX)
        .size("n_k_heads", n_k_heads)
        .size("n_groups", n_groups)
        .size("k_dim", k_dim)
        .size("v_dim", v_dim)
        .within("tiled", tiled, 0, 1)
        .input("q", q, {n_tokens, n_k_heads, k_dim})
        .input("k", k, {n_tokens, n_k_heads, k_dim})
        .input("v", v, {n_tokens, n_k_heads, n_groups, v_dim})
        .input("gate", gate, {n_tokens, n_k_heads, n_groups})
        .input("beta", beta, {n_tokens, n_k_heads, n_groups})
        .input("seq_start", seq_start, {n_seqs + 1})
        .input("has_state", has_state, {n_seqs})
        .output("y", y, {n_tokens, n_k_heads, n_groups, v_dim})
        .output("state", state, {n_seqs, n_k_heads, n_groups, k_dim, v_dim})
        .starts("seq_start", seq_start, n_seqs, n_tokens)
        .run({{n_seqs, n_k_heads, n_groups}, {n_tokens, k_dim, v_dim}}, gated_delta, q, k, v, gate,
             beta, seq_start, has_state, y, state, scale, n_tokens, n_seqs, n_k_heads, n_groups,
             k_dim, v_dim, tiled, check.fast());
}

#endif
