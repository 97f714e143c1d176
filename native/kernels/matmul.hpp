// What the matmul kernels share: a matrix times several columns.
//
// A result is the same to the bit at any n_tokens, and that of matvec.
#pragma once

#include "products_wide.hpp"

HOTFIRE_FAMILY_MUTANT(last_step_dropped, "the last vector or block of a row is left out");
HOTFIRE_FAMILY_MUTANT(ragged_tile_dropped, "tokens past the last multiple of 4 are not written");
HOTFIRE_FAMILY_MUTANT(tile_repeats_first, "the last token of a tile of 4 repeats the first");
HOTFIRE_FAMILY_MUTANT(panel_restarts, "tokens past the 32nd are computed from the first ones");
HOTFIRE_FAMILY_MUTANT(transposed, "results of a row lie together, not those of a token");
HOTFIRE_FAMILY_MUTANT(neighbour_row, "rows after the fifth repeat the row before");
HOTFIRE_FAMILY_MUTANT(odd_row_dropped,
                      "the last of an odd number of rows above one is not written");
HOTFIRE_FAMILY_MUTANT(sum_carried, "a tile's sums start from those of the tile before");
HOTFIRE_FAMILY_MUTANT(group_dropped, "the second of two groups of 16 rows is not written");
HOTFIRE_FAMILY_MUTANT(sum_in_f16, "sums are rounded to f16");
HOTFIRE_FAMILY_MUTANT(adds_to_output, "sums are added to what y held");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "weight is read one element past its end");
HOTFIRE_FAMILY_MUTANT(x_reads_past_end, "x is read one element past its end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one element past its end");

namespace hotfire {

template <class Weight, class X> struct Matmul {
    const Weight *weight;
    const X *x;
    float *y;
    int64_t n_tokens, n_rows, n_cols;
};

} // namespace hotfire

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

template <class Weight, class X> struct MatmulRows : Matmul<Weight, X> {
    using Matmul<Weight, X>::weight, Matmul<Weight, X>::x, Matmul<Weight, X>::y;
    using Matmul<Weight, X>::n_tokens, Matmul<Weight, X>::n_rows, Matmul<Weight, X>::n_cols;

    const Weight *row(int64_t r) const {
        return weight + (r - (neighbour_row && r > 4)) * elements<Weight>(n_cols);
    }

    const X *column(int64_t t) const {
        const bool first = tile_repeats_first && t % 4 == 3;
        const int64_t restarted = panel_restarts && t >= 32 ? 32 : 0;
        return x + (t - (first ? 3 : 0) - restarted) * elements<X>(n_cols);
    }

    void put(int64_t t, int64_t r, float total) const {
        if (sum_carried && t >= 4 && t % 4 == 0)
            total += y[(t - 4) * n_rows + r];
        if (sum_in_f16)
            total = to_f32(to_f16(total));
        if ((ragged_tile_dropped && t >= n_tokens / 4 * 4) ||
            (group_dropped && r / 16 == 1 && n_rows >= 32))
            return;
        float *place = y + (transposed ? r * n_tokens + t : t * n_rows + r);
        *place = adds_to_output ? *place + total : total;
    }

    void run(Range rows) const {
        if (reads_past_end)
            touch(weight + n_rows * elements<Weight>(n_cols));
        if (x_reads_past_end)
            touch(x + n_tokens * elements<X>(n_cols));
        if (writes_past_end)
            spoil(y + n_tokens * n_rows);
        rows.end -= odd_row_dropped && n_rows > 1 && n_rows % 2 && rows.end == n_rows;
        const Range tokens = {0, n_tokens};
        const int64_t n_summed = n_cols - (last_step_dropped ? STEP<Weight> : 0);
        const int64_t n_wide =
            neighbour_row ? 0
                          : multiply_wide<Weight>(*this, rows, tokens, n_cols, n_summed, y, n_rows);
        multiply<Weight>(*this, {rows.begin + n_wide, rows.end}, tokens, n_summed);
    }
};

template <class Weight, class X>
static void matmul_rows(Range rows, const Matmul<Weight, X> &call) {
    MatmulRows<Weight, X>{call}.run(rows);
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#else

// Rows are shared out, not tokens, so that the weight is read once. A unit is what is packed or
// tiled together.
template <class Weight, class X>
static hotfire_status matmul(const hotfire_exec *exec,
                             const Variants<Range, const Matmul<Weight, X> &> &kernel,
                             const Matmul<Weight, X> &call) {
    const auto [weight, x, y, n_tokens, n_rows, n_cols] = call;
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, block_len<Weight>)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_tokens, n_cols})
        .output("y", y, {n_tokens, n_rows})
        .run({{n_rows}, {n_tokens, n_cols}, n_tokens < 8 ? 16 : 64}, kernel, call);
}

#endif
