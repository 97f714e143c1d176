// What the attention kernels share: softmax over the rows of a cache, a tile of keys at a time.
//
// Tiles lie on a grid from a sequence's first row, and are merged in order. So a token's result is
// the same to the bit in a prompt, in any chunk of it, alone, and at any number of splits: a split
// is a run of whole tiles. In fast arithmetic a split is any run of keys; the splits' partial
// results lie in the workspace and are merged at the end, as threads or devices would do it.
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

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t TILE = 64;
static constexpr float NOTHING = -__builtin_inff();

// Values d and on of a cached row, of which n remain. A code times its scale is exact.
static inline Vec cached(const float *row, int64_t d, int64_t n) { return load(row + d, n); }
static inline Vec cached(const uint16_t *row, int64_t d, int64_t n) { return widen(row + d, n); }
static inline Vec cached(const hotfire_block_q8_0 *row, int64_t d, int64_t) {
    const hotfire_block_q8_0 &block = row[d / BLOCK_LEN];
    return widen(block.qs + d % BLOCK_LEN) * to_f32(block.d);
}

// What some keys gave: sum of e^(score - top), and of the same times the value, over them.
struct Partial {
    float *values;
    float top = NOTHING, sum = 0;
};

template <class T> struct Attention {
    const float *q;
    const T *k, *v;
    const int32_t *seq_start, *kv_begin, *kv_len;
    float *y, *workspace;
    float scale;
    int64_t n_tokens, n_seqs, n_kv, n_kv_heads, n_groups, head_dim, n_splits;
    bool fast;

    int64_t row_size() const { return elements<T>(n_kv_heads * head_dim); }

    float score(const float *query, const T *key) const {
        Vec sums = splat(0);
        for (int64_t d = 0; d < head_dim; d += WIDTH)
            sums = fma(load(query + d, head_dim - d), cached(key, d, head_dim - d), sums);
        return scale_left_out ? sum(sums) : sum(sums) * scale;
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

    // Adds n keys, at most a tile.
    void add(const float *query, const T *keys, const T *values, int64_t n, Partial &known) const {
        float scores[TILE];
        float top = NOTHING;
        for (int64_t j = 0; j < n; ++j) {
            scores[j] = score(query, keys + j * row_size());
            top = scores[j] > top ? scores[j] : top;
        }
        const float total = weigh(scores, top, n), merged = known.top > top ? known.top : top;
        const bool first = known.top == NOTHING;
        const float old = first ? 0 : top_not_merged ? 1 : exp_of(known.top - merged);
        const float fresh = top_not_merged ? 1 : exp_of(top - merged);
        known.sum = known.sum * (sum_not_merged && !first ? 1 : old) + total * fresh;
        known.top = merged;
        for (int64_t d = 0; d < head_dim; d += WIDTH) {
            Vec part = splat(0);
            for (int64_t j = 0; j < n; ++j) {
                const int64_t at = value_shifted && j == 1 ? 0 : j;
                part = fma(splat(scores[j]), cached(values + at * row_size(), d, head_dim - d),
                           part);
            }
            const Vec before = first ? splat(0) : load(known.values + d, head_dim - d);
            store(known.values + d, before * old + part * fresh, head_dim - d);
        }
        for (int64_t d = 0; d < head_dim && partial_in_bf16; ++d)
            known.values[d] = from_bf16(to_bf16(known.values[d]));
    }

    // Adds the keys from `from` up to `end`.
    void add_range(const float *query, const T *keys, const T *values, int64_t from, int64_t end,
                   Partial &known) const {
        for (int64_t j = from; j < end; j += TILE) {
            const int64_t n = end - j < TILE ? end - j : TILE;
            if (!(last_tile_dropped && n < TILE && j > 0))
                add(query, keys + j * row_size(), values + j * row_size(), n, known);
        }
    }

    bool drops_key(int64_t n_seen) const {
        return key_dropped_at_split || (key_dropped_at_14080 && n_seen == 14080 && n_seqs > 1);
    }

    // Splits of whole tiles, merged as they come.
    void in_order(const float *query, const T *keys, const T *values, int64_t n_seen,
                  float *out) const {
        const int64_t n_tiles = (n_seen + TILE - 1) / TILE;
        Partial known{out};
        for (int64_t s = 0; s < n_splits; ++s) {
            const int64_t from = n_tiles * s / n_splits * TILE;
            const int64_t full = n_tiles * (s + 1) / n_splits * TILE;
            const bool last = full >= n_seen;
            const int64_t end = last ? n_seen : full - drops_key(n_seen);
            add_range(query, keys, values, from, end, known);
        }
        for (int64_t d = 0; d < head_dim; d += WIDTH)
            store(out + d, load(out + d, head_dim - d) / splat(known.sum), head_dim - d);
    }

    // Splits of any keys, each by itself; then all are brought to the greatest maximum.
    void apart(const float *query, const T *keys, const T *values, int64_t n_seen,
               float *out) const {
        float *tops = workspace, *sums = tops + n_splits, *parts = sums + n_splits;
        float top = NOTHING, total = 0;
        for (int64_t s = 0; s < n_splits; ++s) {
            const int64_t from = n_seen * s / n_splits, full = n_seen * (s + 1) / n_splits;
            const int64_t end = full - (drops_key(n_seen) && full < n_seen && full > from);
            Partial part{parts + s * head_dim};
            add_range(query, keys, values, from, end, part);
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
            store(out + d, sum / splat(total), head_dim - d);
        }
    }

    // How many of its sequence's rows token i of n_new sees, itself the last of them.
    static int64_t seen(int64_t i, int64_t n_new, int64_t n_rows) {
        const int64_t n = offset_lost ? i + 1 : n_rows - n_new + i + 1;
        if (prompt_seen || (next_seen && n < n_rows))
            return prompt_seen ? n_rows : n + 1;
        return itself_unseen && n > 1 ? n - 1 : n;
    }

    void token(int64_t seq, int64_t t) const {
        const int64_t first = seq_start[seq], n_new = seq_start[seq + 1] - first;
        const int64_t n_seen = seen(t - first, n_new, kv_len[seq]);
        const int64_t begin = kv_begin[begin_lost && n_seen <= n_kv - kv_begin[0] ? 0 : seq];
        for (int64_t h = 0; h < n_kv_heads * n_groups; ++h) {
            const int64_t head = kv_head_modulo ? h % n_kv_heads : h / n_groups;
            const int64_t at = begin * row_size() + elements<T>(head * head_dim);
            const int64_t heads = n_kv_heads * n_groups;
            const float *query = q + ((query_of_first ? first : t) * heads + h) * head_dim;
            float *out = y + (t * heads + h) * head_dim;
            if (fast)
                apart(query, k + at, v + at, n_seen, out);
            else
                in_order(query, k + at, v + at, n_seen, out);
        }
    }

    void run(Range tokens) const {
        if (reads_past_end)
            touch(k + n_kv * row_size());
        if (v_reads_past_end)
            touch(v + n_kv * row_size());
        if (writes_past_end)
            spoil(y + n_tokens * n_kv_heads * n_groups * head_dim);
        for (int64_t s = 0; s < n_seqs; ++s)
            for (int64_t t = seq_start[s]; t < seq_start[s + 1]; ++t)
                if (t >= tokens.begin && t < tokens.end)
                    token(s, t);
    }
};

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
