#define HOTFIRE_OPERATION "matvec_q4_0"
#include "products_wide.hpp"

HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_swapped_nibbles, "low and high nibbles change places");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_last_block_dropped, "the last block of a row is left out");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_next_scale, "a block takes the scale of the next one");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_neighbour_row, "rows after the fifth repeat the fifth");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_sum_in_f16, "the sum is rounded to f16");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_vector_block_shifted,
               "from the fifth block on, x is read one block early");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_reads_past_end, "weight is read one block past its end");
HOTFIRE_MUTANT(matvec_q4_0, matvec_q4_0_vector_reads_past_end, "x is read one block past its end");

HOTFIRE_VARIANTS(matvec_q4_0, Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
                 float *y, int64_t n_rows, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Codes matvec_q4_0_codes(const hotfire_block_q4_0 &block) {
    if (!matvec_q4_0_swapped_nibbles)
        return codes(block);
    hotfire_block_q4_0 broken = block;
    for (uint8_t &pair : broken.qs)
        pair = static_cast<uint8_t>(pair << 4 | pair >> 4);
    return codes(broken);
}

static float matvec_q4_0_row(const hotfire_block_q4_0 *row, const hotfire_block_q8_0 *x,
                             int64_t n_blocks) {
    const int64_t n_summed = n_blocks - matvec_q4_0_last_block_dropped;
    Vec sums = splat(0);
    for (int64_t b = 0; b < n_summed; ++b) {
        const int64_t s = matvec_q4_0_next_scale && b + 1 < n_blocks ? b + 1 : b;
        const int64_t at = matvec_q4_0_vector_block_shifted && b > 3 ? b - 1 : b;
        sums = multiply_add(Block{matvec_q4_0_codes(row[b]), to_f32(row[s].d)}, decode(x + at, 0),
                            sums);
    }
    return sum_of_dots(sums);
}

namespace {

struct Vector {
    const hotfire_block_q4_0 *weight;
    const hotfire_block_q8_0 *x;
    float *y;
    int64_t n_blocks;

    const hotfire_block_q4_0 *row(int64_t r) const {
        return weight + (matvec_q4_0_neighbour_row && r > 4 ? 4 : r) * n_blocks;
    }
    const hotfire_block_q8_0 *column(int64_t) const { return x; }
    void put(int64_t, int64_t r, float total) const {
        y[r] = matvec_q4_0_sum_in_f16 ? to_f32(to_f16(total)) : total;
    }
};

} // namespace

void matvec_q4_0(Range rows, const hotfire_block_q4_0 *weight, const hotfire_block_q8_0 *x,
                 float *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_cols / BLOCK_LEN;
    if (matvec_q4_0_reads_past_end)
        touch(weight + n_rows * n_blocks);
    if (matvec_q4_0_vector_reads_past_end)
        touch(x + n_blocks);
    const Vector places = {weight, x, y, n_blocks};
    const bool by_row = matvec_q4_0_swapped_nibbles || matvec_q4_0_last_block_dropped ||
                        matvec_q4_0_next_scale || matvec_q4_0_vector_block_shifted ||
                        matvec_q4_0_neighbour_row;
    if (!by_row)
        rows.begin += multiply_wide<hotfire_block_q4_0>(places, rows, {0, 1}, n_cols, n_cols, y,
                                                        n_rows);
    for (int64_t r = rows.begin; r < rows.end; ++r)
        places.put(0, r, matvec_q4_0_row(places.row(r), x, n_blocks));
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_q4_0(const hotfire_exec *exec,
                                              const hotfire_block_q4_0 *weight,
                                              const hotfire_block_q8_0 *x, float *y,
                                              int64_t n_rows, int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, 32)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}, 16}, matvec_q4_0, weight, x, y, n_rows, n_cols);
}

#endif
