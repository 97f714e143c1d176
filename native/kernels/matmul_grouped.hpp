// What the grouped matmul kernels share: each token times the matrices of its own experts.
#pragma once

#include "products_wide.hpp"

HOTFIRE_FAMILY_MUTANT(invalid_clamped, "an id out of range counts as the nearest valid one");
HOTFIRE_FAMILY_MUTANT(invalid_unwritten, "the output of an id out of range is not written");
HOTFIRE_FAMILY_MUTANT(last_id_invalid, "the last expert counts as out of range");
HOTFIRE_FAMILY_MUTANT(repeated_once, "an id that a token repeats gives zeros the second time");
HOTFIRE_FAMILY_MUTANT(ids_of_first, "every token takes the first one's ids");
HOTFIRE_FAMILY_MUTANT(ids_transposed, "ids are read as if slots lay outside tokens");
HOTFIRE_FAMILY_MUTANT(x_of_slot, "x is read as if every slot had a row of its own");
HOTFIRE_FAMILY_MUTANT(expert_stride, "experts past the first start one row early");
HOTFIRE_FAMILY_MUTANT(last_step_dropped, "the last vector or block of a row is left out");
HOTFIRE_FAMILY_MUTANT(sum_in_f16, "sums are rounded to f16");
HOTFIRE_FAMILY_MUTANT(reads_past_end, "weight is read one element past its end");
HOTFIRE_FAMILY_MUTANT(ids_read_past_end, "expert_ids are read one element past their end");
HOTFIRE_FAMILY_MUTANT(writes_past_end, "y is written one element past its end");

namespace hotfire {

template <class Weight, class X> struct Grouped {
    const Weight *weight;
    const X *x;
    const int32_t *expert_ids;
    float *y;
    int64_t n_tokens, n_top_k, n_experts, n_rows, n_cols;
};

} // namespace hotfire

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

template <class Weight, class X> struct GroupedRows : Grouped<Weight, X> {
    using Call = Grouped<Weight, X>;
    using Call::weight, Call::x, Call::expert_ids, Call::y;
    using Call::n_tokens, Call::n_top_k, Call::n_experts, Call::n_rows, Call::n_cols;

    int64_t id(int64_t t, int64_t u) const {
        if (ids_of_first)
            t = 0;
        return expert_ids[ids_transposed ? u * n_tokens + t : t * n_top_k + u];
    }

    // The expert of a slot, or -1 if it has none.
    int64_t expert(int64_t t, int64_t u) const {
        const int64_t found = id(t, u);
        for (int64_t before = 0; before < u && repeated_once; ++before)
            if (id(t, before) == found)
                return -1;
        if (found >= 0 && found < n_experts - last_id_invalid)
            return found;
        return !invalid_clamped ? -1 : found < 0 ? 0 : n_experts - 1;
    }

    // One slot's matrix, its column, and where its results go.
    struct Slot {
        const Weight *weight;
        const X *x;
        float *y;
        int64_t n_cols;

        const Weight *row(int64_t r) const { return weight + r * elements<Weight>(n_cols); }
        const X *column(int64_t) const { return x; }
        void put(int64_t, int64_t r, float total) const {
            y[r] = sum_in_f16 ? to_f32(to_f16(total)) : total;
        }
    };

    void slot(Range rows, int64_t t, int64_t u) const {
        const int64_t found = expert(t, u);
        if (found < 0 && invalid_unwritten)
            return;
        const int64_t at = x_of_slot && t * n_top_k + u < n_tokens ? t * n_top_k + u : t;
        const int64_t first = found * n_rows - (expert_stride && found > 0);
        float *out = y + (t * n_top_k + u) * n_rows;
        for (int64_t r = rows.begin; r < rows.end && found < 0; ++r)
            out[r] = 0;
        if (found < 0)
            return;
        const Slot slot = {weight + first * elements<Weight>(n_cols), x + at * elements<X>(n_cols),
                           out, n_cols};
        const int64_t n_summed = n_cols - (last_step_dropped ? STEP<Weight> : 0);
        const int64_t n_wide =
            multiply_wide<Weight>(slot, rows, {0, 1}, n_cols, n_summed, out, n_rows);
        multiply<Weight>(slot, {rows.begin + n_wide, rows.end}, {0, 1}, n_summed);
    }

    void run(Range rows) const {
        if (reads_past_end)
            touch(weight + n_experts * n_rows * elements<Weight>(n_cols));
        if (ids_read_past_end)
            touch(expert_ids + n_tokens * n_top_k);
        if (writes_past_end)
            spoil(y + n_tokens * n_top_k * n_rows);
        for (int64_t t = 0; t < n_tokens; ++t)
            for (int64_t u = 0; u < n_top_k; ++u)
                slot(rows, t, u);
    }
};

template <class Weight, class X>
static void matmul_grouped_rows(Range rows, const Grouped<Weight, X> &call) {
    GroupedRows<Weight, X>{call}.run(rows);
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#else

template <class Weight, class X>
static hotfire_status matmul_grouped(const hotfire_exec *exec,
                                     const Variants<Range, const Grouped<Weight, X> &> &kernel,
                                     const Grouped<Weight, X> &call) {
    const auto [weight, x, expert_ids, y, n_tokens, n_top_k, n_experts, n_rows, n_cols] = call;
    return Check(exec)
        .size("n_tokens", n_tokens)
        .size("n_top_k", n_top_k)
        .size("n_experts", n_experts)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, block_len<Weight>)
        .input("weight", weight, {n_experts, n_rows, n_cols})
        .input("x", x, {n_tokens, n_cols})
        .input("expert_ids", expert_ids, {n_tokens, n_top_k})
        .output("y", y, {n_tokens, n_top_k, n_rows})
        .run({{n_rows}, {n_tokens, n_top_k, n_cols}, 16}, kernel, call);
}

#endif
