// What the matmul kernels share: a matrix times several columns.
//
// A vector or block of a weight row is decoded once for a tile of columns. Each sum runs along its
// row alone, in the order of matvec, so that a result is the same to the bit at any n_tokens.
#pragma once

#include "products.hpp"

HOTFIRE_FAMILY_MUTANT(last_step_dropped, "the last vector or block of a row is left out");
HOTFIRE_FAMILY_MUTANT(ragged_tile_dropped, "tokens past the last multiple of 4 are not written");
HOTFIRE_FAMILY_MUTANT(tile_repeats_first, "the last token of a tile of 4 repeats the first");
HOTFIRE_FAMILY_MUTANT(panel_restarts, "tokens past the 32nd are computed from the first ones");
HOTFIRE_FAMILY_MUTANT(transposed, "results of a row lie together, not those of a token");
HOTFIRE_FAMILY_MUTANT(neighbour_row, "rows after the fifth repeat the row before");
HOTFIRE_FAMILY_MUTANT(odd_row_dropped,
                      "the last of an odd number of rows above one is not written");
HOTFIRE_FAMILY_MUTANT(sum_carried, "a tile's sums start from those of the tile before");
HOTFIRE_FAMILY_MUTANT(sum_in_f16, "sums are rounded to f16");
HOTFIRE_FAMILY_MUTANT(adds_to_output, "sums are added to what y held");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "weight is read one element past its end");
HOTFIRE_FAMILY_MUTANT(x_reads_past_end, "x is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one element past its end");

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t PANEL = 32; // columns of x that stay in the cache while weight streams by

template <class Weight, class X> struct Matmul {
    const Weight *weight;
    const X *x;
    float *y;
    int64_t n_tokens, n_rows, n_cols;
    bool fast;

    const X *column(int64_t t) const { return x + t * elements<X>(n_cols); }

    void put(int64_t t, int64_t r, float total) const {
        if (sum_in_f16)
            total = to_f32(to_f16(total));
        if (ragged_tile_dropped && t >= n_tokens / 4 * 4)
            return;
        float *place = y + (transposed ? r * n_tokens + t : t * n_rows + r);
        *place = adds_to_output ? *place + total : total;
    }

    // A row times N columns.
    template <int N> void tile(const Weight *row, int64_t t, int64_t r) const {
        const X *columns[N];
        Vec sums[N];
        for (int i = 0; i < N; ++i) {
            const bool first = tile_repeats_first && N == 4 && i == N - 1;
            columns[i] = column((first ? t : t + i) - (panel_restarts && t >= PANEL ? PANEL : 0));
            sums[i] = splat(sum_carried && t >= N && i == 0 ? y[(t - N) * n_rows + r] : 0);
        }
        const int64_t n_summed = n_cols - (last_step_dropped ? STEP<Weight> : 0);
        for (int64_t k = 0; k < n_summed; k += STEP<Weight>) {
            const auto values = decode(row + elements<Weight>(k), n_cols - k);
            for (int i = 0; i < N; ++i)
                sums[i] = multiply_add(values, columns[i] + elements<X>(k), n_cols - k, sums[i]);
        }
        for (int i = 0; i < N; ++i)
            put(t + i, r, sum(sums[i]));
    }

    void panel(Range rows, int64_t first, int64_t end) const {
        const bool drop = odd_row_dropped && n_rows > 1 && n_rows % 2 && rows.end == n_rows;
        for (int64_t r = rows.begin; r < rows.end - drop; ++r) {
            const Weight *row = weight + (r - (neighbour_row && r > 4)) * elements<Weight>(n_cols);
            int64_t t = first;
            for (; t + 4 <= end; t += 4)
                tile<4>(row, t, r);
            for (; t < end; ++t) {
                if (fast)
                    put(t, r, product<4>(row, column(t), n_cols));
                else
                    tile<1>(row, t, r);
            }
        }
    }

    void run(Range rows) const {
        if (reads_past_end)
            touch(weight + n_rows * elements<Weight>(n_cols));
        if (x_reads_past_end)
            touch(column(n_tokens));
        if (writes_past_end)
            spoil(y + n_tokens * n_rows);
        for (int64_t t = 0; t < n_tokens; t += PANEL)
            panel(rows, t, t + PANEL < n_tokens ? t + PANEL : n_tokens);
    }
};

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
