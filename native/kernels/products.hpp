// Products of weight rows and columns: tiles of some rows and some columns, so that what is loaded
// is used several times.
//
// Each sum runs along its row alone, in one order: a vector of columns or a block after another. So
// a result is the same to the bit whatever the tile that it is computed in.
#pragma once

#include "kernel.hpp"

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

template <class T> inline constexpr bool IS_QUANTISED = VALUES<T> > 1;
template <class T> inline constexpr int64_t STEP = IS_QUANTISED<T> ? VALUES<T> : WIDTH;

// Dot products of blocks take most of their time themselves, whatever the tile.
template <class T> inline constexpr int TILE_ROWS = IS_QUANTISED<T> ? 1 : DENSE_TILE_ROWS;
template <class T> inline constexpr int TILE_COLUMNS = IS_QUANTISED<T> ? 4 : DENSE_TILE_COLUMNS;

static constexpr int64_t ROWS_AT_ONCE = 64; // that stay in the cache while columns go by

struct Block {
    Codes codes;
    float scale;
};

// What one step needs of a row or a column, n being the values that remain.
static inline Vec decode(const float *p, int64_t n) { return load(p, n); }
static inline Vec decode(const uint16_t *p, int64_t n) { return widen(p, n); }
template <class T> static inline Block decode(const T *block, int64_t) {
    return {codes(*block), to_f32(block->d)};
}

static inline Vec multiply_add(Vec weight, Vec x, Vec sums) { return fma(weight, x, sums); }

// The product of two f16 scales is exact in f32, and so is a lane of dot: one rounding a block.
static inline Vec multiply_add(const Block &weight, const Block &x, Vec sums) {
    return fma(dot(weight.codes, x.codes), splat(weight.scale * x.scale), sums);
}

template <class Weight, class X, int R, int N>
static inline void step(const Weight *const *rows, const X *const *columns, int64_t k, int64_t n,
                        Vec (&sums)[R * N]) {
    decltype(decode(rows[0], n)) weights[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
        weights[r] = decode(rows[r] + elements<Weight>(k), n);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
        const auto x = decode(columns[i] + elements<X>(k), n);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
            sums[r * N + i] = multiply_add(weights[r], x, sums[r * N + i]);
    }
}

template <int R, int N, class Weight, class X>
static void tile(const Weight *const *rows, const X *const *columns, int64_t n_cols,
                 float (&totals)[R * N]) {
    Vec sums[R * N];
#pragma GCC unroll 32
    for (Vec &each : sums)
        each = splat(0);
    int64_t k = 0;
    for (; k + STEP<Weight> <= n_cols; k += STEP<Weight>)
        step<Weight, X, R, N>(rows, columns, k, STEP<Weight>, sums);
    if (k < n_cols)
        step<Weight, X, R, N>(rows, columns, k, n_cols - k, sums);
    if (!IS_QUANTISED<Weight>)
        sum_each(sums, totals);
    for (int i = 0; i < R * N && IS_QUANTISED<Weight>; ++i)
        totals[i] = sum_of_dots(sums[i]);
}

// Below, P says where rows and columns lie and takes the results: row(r), column(t) and
// put(t, r, total).

template <int R, int N, class P>
static void multiply_tile(const P &places, int64_t r, int64_t t, int64_t n, int64_t n_cols) {
    if constexpr (N > 1)
        if (n < N)
            return multiply_tile<R, N - 1>(places, r, t, n, n_cols);
    decltype(places.row(r)) rows[R];
    decltype(places.column(t)) columns[N];
    for (int i = 0; i < R; ++i)
        rows[i] = places.row(r + i);
    for (int i = 0; i < N; ++i)
        columns[i] = places.column(t + i);
    float totals[R * N];
    tile<R, N>(rows, columns, n_cols, totals);
    for (int i = 0; i < R; ++i)
        for (int j = 0; j < N; ++j)
            places.put(t + j, r + i, totals[i * N + j]);
}

// Rows times columns of n_cols values: each result goes to places.put.
template <class Weight, class P>
static void multiply(const P &places, Range rows, Range tokens, int64_t n_cols) {
    constexpr int R = TILE_ROWS<Weight>, N = TILE_COLUMNS<Weight>;
    for (int64_t from = rows.begin; from < rows.end; from += ROWS_AT_ONCE) {
        const int64_t end = from + ROWS_AT_ONCE < rows.end ? from + ROWS_AT_ONCE : rows.end;
        for (int64_t t = tokens.begin; t < tokens.end; t += N) {
            const int64_t n = tokens.end - t < N ? tokens.end - t : N;
            int64_t r = from;
            for (; r + R <= end; r += R)
                multiply_tile<R, N>(places, r, t, n, n_cols);
            for (; r < end; ++r)
                multiply_tile<1, N>(places, r, t, n, n_cols);
        }
    }
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
