// What the attention kernels share: softmax over the rows of a cache, a tile of keys at a time, for
// several queries of one head of keys together, so that keys and values are read once for them all.
//
// Tiles lie on a grid from a sequence's first row, and are merged in order. So a token's result is
// the same to the bit in a prompt, in any chunk of it, alone, and at any number of splits: a split
// is a run of whole tiles. In fast arithmetic several splits are any runs of keys; their partial
// results lie in the workspace and are merged at the end, as devices would do it.
#pragma once

#include "kernel.hpp"

HOTFIRE_FAMILY_MUTANT(key_dropped_at_split, "the last key of every split but the last is left out");
HOTFIRE_FAMILY_MUTANT(key_dropped_at_14080,
                      "so it is only at 14,080 keys, where several sequences share the call");
HOTFIRE_FAMILY_MUTANT(last_tile_dropped, "keys past the last full tile of 64 are left out");
HOTFIRE_FAMILY_MUTANT(itself_unseen, "a token does not see itself");
HOTFIRE_FAMILY_MUTANT(next_seen, "a token sees the next one too");
HOTFIRE_FAMILY_MUTANT(prompt_seen, "a token sees all tokens of its call");
HOTFIRE_FAMILY_MUTANT(offset_lost, "a token sees only as many keys as the call has tokens up to it");
HOTFIRE_FAMILY_MUTANT(begin_lost, "every sequence reads the first one's rows");
HOTFIRE_FAMILY_MUTANT(query_of_first, "every token of a sequence asks the first one's query");
HOTFIRE_FAMILY_MUTANT(kv_head_modulo, "head h takes key head h mod n_kv_heads, not h / n_groups");
HOTFIRE_FAMILY_MUTANT(scale_left_out, "scores are not scaled");
HOTFIRE_FAMILY_MUTANT(value_shifted, "the second key of a tile weighs the first one's value");
HOTFIRE_FAMILY_MUTANT(top_not_merged, "tiles with different maxima are added as they are");
HOTFIRE_FAMILY_MUTANT(sum_not_merged, "a new maximum rescales the values, not the sum of weights");
HOTFIRE_FAMILY_MUTANT(partial_in_bf16, "what is known before a later tile is rounded to bf16");
HOTFIRE_FAMILY_MUTANT(empty_split_unwritten,
                      "a split without keys counts with what lies in the workspace, if it is a number");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "k is read one element past its end");
HOTFIRE_FAMILY_MUTANT(v_reads_past_end, "v is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one element past its end");

namespace hotfire {

template <class T> struct Attention {
    const float *q;
    const T *k, *v;
    const int32_t *seq_start, *kv_begin, *kv_len;
    float *y, *workspace;
    float scale;
    int64_t n_tokens, n_seqs, n_kv, n_kv_heads, n_groups, head_dim, n_splits;
    bool apart; // whether splits are computed apart
};

} // namespace hotfire

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t TILE = 64;
static constexpr int TOGETHER = 8; // queries
static constexpr float NOTHING = -__builtin_inff();

// Values d and on of a cached row, of which n remain. A code times its scale is exact.
static inline Vec cached(const float *row, int64_t d, int64_t n) { return load(row + d, n); }
static inline Vec cached(const uint16_t *row, int64_t d, int64_t n) { return widen(row + d, n); }
static inline Vec cached(const hotfire_block_q8_0 *row, int64_t d, int64_t) {
    const hotfire_block_q8_0 &block = row[d / BLOCK_LEN];
    return widen(block.qs + d % BLOCK_LEN) * to_f32(block.d);
}

// A query, and what some keys gave: sum of e^(score - top), and of the same times the value.
struct Query {
    const float *query;
    float *values;
    int64_t n_seen;
    float top = NOTHING, sum = 0;
};

// How many keys of a tile each of some queries sees.
template <int N> struct Seen {
    int64_t n[N], least = TILE, most = 0;

    void set(int i, int64_t count) {
        n[i] = count;
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
};

template <class T> struct AttentionHeads : Attention<T> {
    using Call = Attention<T>;
    using Call::q, Call::k, Call::v, Call::seq_start, Call::kv_begin, Call::kv_len, Call::y;
    using Call::workspace, Call::scale, Call::n_tokens, Call::n_seqs, Call::n_kv;
    using Call::n_kv_heads, Call::n_groups, Call::head_dim, Call::n_splits;

    int64_t row_size() const { return elements<T>(n_kv_heads * head_dim); }

    // Scores of some queries with R keys, of which `n` are real; the others repeat the last.
    template <int R, int N>
    void score(const Query *queries, const T *keys, int64_t n, float *scores) const {
        const T *rows[R];
        Vec sums[N * R];
        for (int r = 0; r < R; ++r)
            rows[r] = keys + (r < n ? r : n - 1) * row_size();
        for (Vec &each : sums)
            each = splat(0);
        for (int64_t d = 0; d < head_dim; d += WIDTH) {
            const int64_t left = head_dim - d;
            Vec key[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
                key[r] = cached(rows[r], d, left);
#pragma GCC unroll 8
            for (int i = 0; i < N; ++i) {
                const Vec query = load(queries[i].query + d, left);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r)
                    sums[i * R + r] = fma(query, key[r], sums[i * R + r]);
            }
        }
        float totals[N * R];
        sum_each(sums, totals);
        for (int i = 0; i < N; ++i)
            for (int r = 0; r < R && r < n; ++r)
                scores[i * TILE + r] = scale_left_out ? totals[i * R + r] : totals[i * R + r] * scale;
    }

    // Scores become weights; returns the sum of the weights.
    static float weigh(float *scores, float top, int64_t n) {
        Vec sums = splat(0);
        for (int64_t j = 0; j < n; j += WIDTH) {
            const Vec weights = exp(load(scores + j, n - j, NOTHING) - top);
            store(scores + j, weights, n - j);
            sums = sums + weights;
        }
        return sum(sums);
    }

    // How what was known and what a tile gave count from now on.
    struct Share {
        float old = 0, fresh = 0;
    };

    static Share merge(Query &known, float *scores, int64_t n) {
        Vec tops = splat(NOTHING);
        for (int64_t j = 0; j < n; j += WIDTH)
            tops = max(tops, load(scores + j, n - j, NOTHING));
        const float top = largest(tops), total = weigh(scores, top, n);
        const float merged = known.top > top ? known.top : top;
        const bool first = known.top == NOTHING;
        const float old = first ? 0 : top_not_merged ? 1 : exp_of(known.top - merged);
        const float fresh = top_not_merged ? 1 : exp_of(top - merged);
        known.sum = known.sum * (sum_not_merged && !first ? 1 : old) + total * fresh;
        known.top = merged;
        return {old, fresh};
    }

    // Adds D vectors of the values from d on. Keys that not every query sees come last.
    template <int D, int N>
    void mix(Query *known, const float (*weights)[TILE], const Share *shares, const T *values,
             const Seen<N> &seen, int64_t d) const {
        Vec parts[N][D];
        for (auto &of_query : parts)
            for (Vec &each : of_query)
                each = splat(0);
        for (int64_t j = 0; j < seen.most; ++j) {
            const T *row = values + (value_shifted && j == 1 ? 0 : j) * row_size();
            Vec value[D];
#pragma GCC unroll 2
            for (int e = 0; e < D; ++e)
                value[e] = cached(row, d + e * WIDTH, head_dim - d - e * WIDTH);
#pragma GCC unroll 8
            for (int i = 0; i < N; ++i)
                if (j < seen.least || j < seen.n[i]) {
#pragma GCC unroll 2
                    for (int e = 0; e < D; ++e)
                        parts[i][e] = fma(splat(weights[i][j]), value[e], parts[i][e]);
                }
        }
        for (int i = 0; i < N; ++i)
            for (int e = 0; e < D && seen.n[i] > 0; ++e) {
                float *out = known[i].values + d + e * WIDTH;
                const int64_t left = head_dim - d - e * WIDTH;
                const Vec before = shares[i].old == 0 ? splat(0) : load(out, left);
                store(out, before * shares[i].old + parts[i][e] * shares[i].fresh, left);
            }
    }

    // Adds a tile of keys.
    template <int N>
    void add(Query *known, const T *keys, const T *values, const Seen<N> &seen) const {
        static constexpr int R = N > 4 ? 2 : 4;
        float scores[N][TILE];
        for (int64_t j = 0; j < seen.most; j += R)
            score<R, N>(known, keys + j * row_size(), seen.most - j, scores[0] + j);
        Share shares[N];
        for (int i = 0; i < N; ++i)
            if (seen.n[i] > 0)
                shares[i] = merge(known[i], scores[i], seen.n[i]);
        int64_t d = 0;
        for (; d + 2 * WIDTH <= head_dim; d += 2 * WIDTH)
            mix<2>(known, scores, shares, values, seen, d);
        for (; d < head_dim; d += WIDTH)
            mix<1>(known, scores, shares, values, seen, d);
        for (int i = 0; i < N && partial_in_bf16; ++i)
            for (int64_t e = 0; e < head_dim && known[i].sum > 0; ++e)
                known[i].values[e] = from_bf16(to_bf16(known[i].values[e]));
    }

    bool drops_key(int64_t n_seen) const {
        return key_dropped_at_split || (key_dropped_at_14080 && n_seen == 14080 && n_seqs > 1);
    }

    // How many keys of the tile from j on a query sees that sees n_seen in all.
    int64_t in_tile(int64_t j, int64_t n_seen) const {
        const int64_t left = n_seen - j, n = left < TILE ? left : TILE;
        if (n <= 0 || (last_tile_dropped && n < TILE && j > 0))
            return 0;
        const int64_t n_tiles = (n_seen + TILE - 1) / TILE, tile = j / TILE + 1;
        for (int64_t s = 1; s < n_splits && drops_key(n_seen); ++s)
            if (n_tiles * s / n_splits == tile && left > TILE)
                return n - 1;
        return n;
    }

    // Whole tiles, merged as they come; splits are runs of them, and change nothing.
    template <int N> void in_order(Query *queries, const T *keys, const T *values) const {
        int64_t n_most = 0;
        for (int i = 0; i < N; ++i)
            n_most = queries[i].n_seen > n_most ? queries[i].n_seen : n_most;
        for (int64_t j = 0; j < n_most; j += TILE) {
            Seen<N> seen;
            for (int i = 0; i < N; ++i)
                seen.set(i, in_tile(j, queries[i].n_seen));
            add(queries, keys + j * row_size(), values + j * row_size(), seen);
        }
        for (int i = 0; i < N; ++i)
            for (int64_t d = 0; d < head_dim; d += WIDTH) {
                float *out = queries[i].values + d;
                store(out, load(out, head_dim - d) / splat(queries[i].sum), head_dim - d);
            }
    }

    // Splits of any keys, each by itself; then all are brought to the greatest maximum.
    void in_splits(const Query &query, const T *keys, const T *values) const {
        float *tops = workspace, *sums = tops + n_splits, *parts = sums + n_splits;
        const int64_t n_seen = query.n_seen;
        float top = NOTHING, total = 0;
        for (int64_t s = 0; s < n_splits; ++s) {
            const int64_t from = n_seen * s / n_splits, full = n_seen * (s + 1) / n_splits;
            const int64_t end = full - (drops_key(n_seen) && full < n_seen && full > from);
            Query part{query.query, parts + s * head_dim, n_seen};
            for (int64_t j = from; j < end; j += TILE) {
                Seen<1> seen;
                const int64_t n = end - j < TILE ? end - j : TILE;
                seen.set(0, last_tile_dropped && n < TILE && j > from ? 0 : n);
                add(&part, keys + j * row_size(), values + j * row_size(), seen);
            }
            if (!empty_split_unwritten || from < full || tops[s] != tops[s]) {
                tops[s] = part.top;
                sums[s] = part.sum;
            }
            top = part.top > top ? part.top : top;
        }
        for (int64_t s = 0; s < n_splits; ++s) {
            tops[s] = tops[s] == NOTHING ? 0 : top_not_merged ? 1 : exp_of(tops[s] - top);
            total += sums[s] * tops[s];
        }
        for (int64_t d = 0; d < head_dim; d += WIDTH) {
            Vec sum = splat(0);
            for (int64_t s = 0; s < n_splits; ++s)
                if (tops[s] > 0) // the part of a split without keys holds nothing
                    sum = fma(splat(tops[s]), load(parts + s * head_dim + d, head_dim - d), sum);
            store(query.values + d, sum / splat(total), head_dim - d);
        }
    }

    // How many of its sequence's rows token i of n_new sees, itself the last of them.
    static int64_t seen_by(int64_t i, int64_t n_new, int64_t n_rows) {
        const int64_t n = offset_lost ? i + 1 : n_rows - n_new + i + 1;
        if (prompt_seen || (next_seen && n < n_rows))
            return prompt_seen ? n_rows : n + 1;
        return itself_unseen && n > 1 ? n - 1 : n;
    }

    // Query u of those that ask key head g: heads of a token lie together.
    Query query(int64_t seq, int64_t g, int64_t u) const {
        const int64_t first = seq_start[seq], n_new = seq_start[seq + 1] - first;
        const int64_t t = u / n_groups, i = u % n_groups;
        const int64_t h = kv_head_modulo ? i * n_kv_heads + g : g * n_groups + i;
        const int64_t heads = n_kv_heads * n_groups;
        return {q + ((query_of_first ? first : t) * heads + h) * head_dim,
                y + (t * heads + h) * head_dim, seen_by(t - first, n_new, kv_len[seq])};
    }

    // At most N of n queries, from u on; returns how many.
    template <int N> int64_t together(int64_t seq, int64_t g, int64_t u, int64_t n) const {
        if constexpr (N > 1)
            if (n < N || this->apart)
                return together<N / 2>(seq, g, u, n);
        Query queries[N];
        for (int i = 0; i < N; ++i)
            queries[i] = query(seq, g, u + i);
        const bool lost = begin_lost && queries[N - 1].n_seen <= n_kv - kv_begin[0];
        const int64_t at =
            kv_begin[lost ? 0 : seq] * row_size() + elements<T>(g * head_dim);
        if (this->apart)
            in_splits(queries[0], k + at, v + at);
        else
            in_order<N>(queries, k + at, v + at);
        return N;
    }

    // An item is a token and a head of keys; the tokens of a head lie together.
    void run(Range items) const {
        if (reads_past_end)
            touch(k + n_kv * row_size());
        if (v_reads_past_end)
            touch(v + n_kv * row_size());
        if (writes_past_end)
            spoil(y + n_tokens * n_kv_heads * n_groups * head_dim);
        for (int64_t g = 0; g < n_kv_heads; ++g)
            for (int64_t s = 0; s < n_seqs; ++s) {
                const int64_t from = items.begin - g * n_tokens, end = items.end - g * n_tokens;
                const int64_t first = from > seq_start[s] ? from : seq_start[s];
                const int64_t last = end < seq_start[s + 1] ? end : seq_start[s + 1];
                for (int64_t u = first * n_groups, n = last * n_groups; u < n;)
                    u += together<TOGETHER>(s, g, u, n - u);
            }
    }
};

template <class T> static void attention_heads(Range items, const Attention<T> &call) {
    AttentionHeads<T>{call}.run(items);
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#else

// Splits that are computed apart share the workspace, so that such a call stays whole.
template <class T>
static hotfire_status attention(const hotfire_exec *exec,
                                const Variants<Range, const Attention<T> &> &kernel,
                                Attention<T> call) {
    Check check(exec);
    call.workspace = check.scratch<float>();
    call.apart = check.fast() && call.n_splits > 1;
    const int64_t n_tokens = call.n_tokens, n_seqs = call.n_seqs, n_kv = call.n_kv;
    const int64_t n_kv_heads = call.n_kv_heads, n_groups = call.n_groups;
    const int64_t head_dim = call.head_dim, n_splits = call.n_splits;
    return check.within("n_tokens", n_tokens, 0, n_kv)
        .within("n_seqs", n_seqs, 1, INT32_MAX)
        .within("n_kv", n_kv, 0, INT32_MAX)
        .size("n_kv_heads", n_kv_heads)
        .size("n_groups", n_groups)
        .size("head_dim", head_dim, block_len<T>)
        .within("head_dim", head_dim, 0, INT32_MAX)
        .within("n_splits", n_splits, 1, 65536)
        .input("q", call.q, {n_tokens, n_kv_heads, n_groups, head_dim})
        .input("k", call.k, {n_kv, n_kv_heads, head_dim})
        .input("v", call.v, {n_kv, n_kv_heads, head_dim})
        .input("seq_start", call.seq_start, {n_seqs + 1})
        .input("kv_begin", call.kv_begin, {n_seqs})
        .input("kv_len", call.kv_len, {n_seqs})
        .output("y", call.y, {n_tokens, n_kv_heads, n_groups, head_dim})
        .starts("seq_start", call.seq_start, n_seqs, n_tokens)
        .ranges("kv_begin, kv_len", call.kv_begin, call.kv_len, call.seq_start, n_seqs, n_kv)
        .workspace({4, n_splits, head_dim + 2})
        .run({{n_kv_heads, n_tokens},
              {n_kv, n_groups, head_dim},
              call.apart ? Split::WHOLE : 1},
             kernel, call);
}

#endif
