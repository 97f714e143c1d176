#include "gated_delta.hpp"

HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_history_lost,
               "a call starts from zeros, not from the state");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_chunk_forgets,
               "a chunk's outputs do not see the state before the chunk");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_prediction_forgets,
               "a chunk's deltas do not see the state before the chunk");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_solved_once,
               "deltas of a chunk are corrected by the first guess of the earlier ones");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_final_gate,
               "a short last chunk ends with the decay of a full one's last index");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_tail_unsaved,
               "tokens past the last full chunk do not enter the final state");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_decay_restarts,
               "deltas of a chunk reach its end without decay");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_decay_divided,
               "the decay from j to i is a quotient of decays from the chunk's start");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_gate_late,
               "the decay from j to i counts the gate of j instead of that of i");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_own_key_unseen,
               "a token's output does not see its own update");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_not_causal,
               "outputs see the chunk's next token too");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_rate_of_other,
               "what a token takes from an earlier one is weighed by the earlier one's beta");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_stale_state, "has_state is ignored");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_neighbour_state,
               "sequences past the first read the state of the one before");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_empty_sequence_cleared,
               "a sequence without tokens loses its state");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_state_in_bf16,
               "the state between chunks is rounded to bf16");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_key_head_modulo,
               "value head h takes key head h mod n_k_heads, not h / n_groups");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_scale_left_out, "queries are not scaled");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_reads_past_end,
               "k is read one element past its end");
HOTFIRE_MUTANT(gated_delta_chunked, gated_delta_chunked_writes_past_end,
               "state is written one element past its end");

static constexpr int64_t LONGEST = 64; // tokens of a chunk

HOTFIRE_VARIANTS(gated_delta_chunked, Range heads, const DeltaRule &call, int64_t chunk_len)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static float gated_delta_chunked_dot(const float *a, const float *b, int64_t n) {
    Vec sums = splat(0);
    for (int64_t i = 0; i < n; i += WIDTH)
        sums = fma(load(a + i, n - i), load(b + i, n - i), sums);
    return sum(sums);
}

// What a chunk's tokens do to one another, the same for every column of the state.
struct Chunk {
    int64_t first, n;
    float solve[LONGEST][LONGEST];  // beta_i decay(j..i) k_i k_j, j < i
    float attend[LONGEST][LONGEST]; // scale decay(j..i) q_i k_j, j <= i
    float from_start[LONGEST];      // decay from the chunk's start through token i
    float to_end[LONGEST];          // decay from token j to the chunk's end
};

// Decays are products, not quotients or exponentials of differences of sums: nothing cancels, and a
// closed gate divides nothing by zero.
static void gated_delta_chunked_relate(const DeltaHead &head, Chunk &chunk) {
    const float scale = gated_delta_chunked_scale_left_out ? 1 : head.scale;
    float whole = 1;
    for (int64_t i = 0; i < chunk.n; ++i) {
        const int64_t t = chunk.first + i;
        const float decay = exp_of(head.log_decay(t));
        whole *= decay;
        chunk.from_start[i] = whole;
        for (int64_t j = 0; j < i; ++j) {
            chunk.to_end[j] *= gated_delta_chunked_gate_late && i == j + 1
                                   ? exp_of(head.log_decay(chunk.first + j))
                                   : decay;
            const float reach = gated_delta_chunked_decay_divided
                                    ? chunk.from_start[i] / chunk.from_start[j]
                                    : chunk.to_end[j];
            const float rate =
                head.rate(gated_delta_chunked_rate_of_other ? chunk.first + j : t);
            const float *key = head.key(chunk.first + j);
            chunk.solve[i][j] =
                rate * reach * gated_delta_chunked_dot(head.key(t), key, head.k_dim);
            chunk.attend[i][j] =
                scale * reach * gated_delta_chunked_dot(head.query(t), key, head.k_dim);
        }
        chunk.to_end[i] = 1;
        chunk.attend[i][i] =
            scale * gated_delta_chunked_dot(head.query(t), head.key(t), head.k_dim);
    }
}

// (I + solve) delta = beta (v - decay k^T S) by forward substitution: the WY form, applied to one
// vector of columns, n of them real. Then the outputs from the state and the deltas.
static void gated_delta_chunked_solve(const DeltaHead &head, const Chunk &chunk, int64_t column,
                                      Vec (&delta)[LONGEST]) {
    const int64_t n = head.v_dim - column;
    const float scale = gated_delta_chunked_scale_left_out ? 1 : head.scale;
    Vec guess[LONGEST];
    for (int64_t i = 0; i < chunk.n; ++i) {
        const int64_t t = chunk.first + i, at = t * head.value_stride + column;
        const float *query = head.query(t), *key = head.key(t);
        Vec predicted = splat(0), out = splat(0);
        for (int64_t d = 0; d < head.k_dim; ++d) {
            const Vec row = load(head.state + d * head.v_dim + column, n);
            predicted = fma(splat(key[d]), row, predicted);
            out = fma(splat(query[d]), row, out);
        }
        const float decay = chunk.from_start[i];
        predicted = predicted * (gated_delta_chunked_prediction_forgets ? 0 : decay);
        delta[i] = guess[i] = (load(head.v + at, n) - predicted) * head.rate(t);
        for (int64_t j = 0; j < i; ++j)
            delta[i] = fma(splat(-chunk.solve[i][j]),
                           gated_delta_chunked_solved_once ? guess[j] : delta[j], delta[i]);
        out = out * (gated_delta_chunked_chunk_forgets ? 0 : decay * scale);
        for (int64_t j = 0; j < i + !gated_delta_chunked_own_key_unseen; ++j)
            out = fma(splat(chunk.attend[i][j]), delta[j], out);
        if (gated_delta_chunked_not_causal && i + 1 < chunk.n)
            out = out + load(head.v + at + head.value_stride, n);
        store(head.y + at, out, n);
    }
}

// S = decay S + sum over j of decay(j..end) k_j delta_j^T, after all outputs of these columns.
static void gated_delta_chunked_update(const DeltaHead &head, const Chunk &chunk, int64_t column,
                                       int64_t chunk_len, const Vec (&delta)[LONGEST]) {
    const int64_t n = head.v_dim - column;
    if (gated_delta_chunked_tail_unsaved && chunk.n < chunk_len)
        return;
    const bool full = gated_delta_chunked_final_gate;
    const float decay = chunk.from_start[(full ? chunk_len : chunk.n) - 1];
    for (int64_t d = 0; d < head.k_dim; ++d) {
        float *row = head.state + d * head.v_dim + column;
        Vec after = load(row, n) * decay;
        for (int64_t j = 0; j < chunk.n; ++j) {
            const float reach = gated_delta_chunked_decay_restarts ? 1 : chunk.to_end[j];
            after = fma(splat(head.key(chunk.first + j)[d] * reach), delta[j], after);
        }
        store(row, after, n);
    }
}

static void gated_delta_chunked_head(const DeltaHead &head, int64_t chunk_len) {
    Chunk chunk = {};
    Vec delta[LONGEST];
    for (int64_t first = 0; first < head.n_tokens; first += chunk_len) {
        const int64_t left = head.n_tokens - first;
        chunk.first = first;
        chunk.n = left < chunk_len ? left : chunk_len;
        gated_delta_chunked_relate(head, chunk);
        for (int64_t column = 0; column < head.v_dim; column += WIDTH) {
            gated_delta_chunked_solve(head, chunk, column, delta);
            gated_delta_chunked_update(head, chunk, column, chunk_len, delta);
        }
        for (int64_t i = 0; i < head.k_dim * head.v_dim && gated_delta_chunked_state_in_bf16; ++i)
            head.state[i] = from_bf16(to_bf16(head.state[i]));
    }
}

} // namespace

void gated_delta_chunked(Range heads, const DeltaRule &call, int64_t chunk_len) {
    const int64_t n_heads = call.n_k_heads * call.n_groups, size = call.k_dim * call.v_dim;
    if (gated_delta_chunked_reads_past_end)
        touch(call.k + call.n_tokens * call.n_k_heads * call.k_dim);
    if (gated_delta_chunked_writes_past_end)
        spoil(call.state + call.n_seqs * n_heads * size);
    for (int64_t item = heads.end - 1; item >= heads.begin; --item) {
        const int64_t s = item / n_heads, h = item % n_heads;
        const bool modulo = gated_delta_chunked_key_head_modulo || call.tiled;
        const DeltaHead head = delta_head(call, s, h, modulo);
        if (head.n_tokens == 0 && !gated_delta_chunked_empty_sequence_cleared)
            continue;
        const bool fresh = (!call.has_state[s] && !gated_delta_chunked_stale_state) ||
                           gated_delta_chunked_history_lost || head.n_tokens == 0;
        const bool other = gated_delta_chunked_neighbour_state && s > 0;
        delta_begin(head, fresh, other ? head.state - n_heads * size : nullptr);
        gated_delta_chunked_head(head, chunk_len);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status
hotfire_gated_delta_chunked(const hotfire_exec *exec, const float *q, const float *k,
                            const float *v, const float *gate, const float *beta,
                            const int32_t *seq_start, const int32_t *has_state, float *y,
                            float *state, float scale, int64_t n_tokens, int64_t n_seqs,
                            int64_t n_k_heads, int64_t n_groups, int64_t k_dim, int64_t v_dim,
                            int64_t tiled, int64_t chunk_len) {
    const DeltaRule call{q,     k,        v,      gate,      beta,     seq_start, has_state, y,    state,
                         scale, n_tokens, n_seqs, n_k_heads, n_groups, k_dim,     v_dim,     tiled};
    Check check(exec);
    return check_delta_rule(check, call)
        .within("chunk_len", chunk_len, 1, LONGEST)
        .run(split_of(call), gated_delta_chunked, call, chunk_len);
}

#endif
