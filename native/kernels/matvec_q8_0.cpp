#define HOTFIRE_OPERATION "matvec_q8_0"
#include "products_wide.hpp"

HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_last_block_dropped, "the last block of a row is left out");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_next_scale, "a block takes the scale of the next one");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_neighbour_scale,
               "rows after the fifth take their scales from the row before");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_scale_in_f16, "the product of scales is rounded to f16");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_unsigned_codes, "codes of x lose their sign");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_code_128_clipped, "the code -128 of x counts as -127");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_multiple_unchecked,
               "an n_cols that is no multiple of 32 is accepted");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_reads_past_end, "weight is read one block past its end");
HOTFIRE_MUTANT(matvec_q8_0, matvec_q8_0_writes_past_end, "y is written one element past its end");

HOTFIRE_VARIANTS(matvec_q8_0, Range rows, const hotfire_block_q8_0 *weight, const hotfire_block_q8_0 *x,
                 float *y, int64_t n_rows, int64_t n_cols)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {

static Codes matvec_q8_0_codes(const hotfire_block_q8_0 &block) {
    if (!matvec_q8_0_unsigned_codes && !matvec_q8_0_code_128_clipped)
        return codes(block);
    hotfire_block_q8_0 broken = block;
    for (int8_t &code : broken.qs)
        code = static_cast<int8_t>(matvec_q8_0_unsigned_codes ? code & 127 : code + (code == -128));
    return codes(broken);
}

static float matvec_q8_0_row(const hotfire_block_q8_0 *row, const hotfire_block_q8_0 *scales,
                             const hotfire_block_q8_0 *x, int64_t n_blocks) {
    const int64_t n_summed = n_blocks - matvec_q8_0_last_block_dropped;
    Vec sums = splat(0);
    for (int64_t b = 0; b < n_summed; ++b) {
        const int64_t s = matvec_q8_0_next_scale && b + 1 < n_blocks ? b + 1 : b;
        float scale = to_f32(scales[s].d) * to_f32(x[b].d);
        if (matvec_q8_0_scale_in_f16)
            scale = to_f32(to_f16(scale));
        sums = fma(dot(codes(row[b]), matvec_q8_0_codes(x[b])), splat(scale), sums);
    }
    return sum_of_dots(sums);
}

namespace {

struct Vector {
    const hotfire_block_q8_0 *weight, *x;
    float *y;
    int64_t n_blocks;

    const hotfire_block_q8_0 *row(int64_t r) const { return weight + r * n_blocks; }
    const hotfire_block_q8_0 *column(int64_t) const { return x; }
    void put(int64_t, int64_t r, float total) const { y[r] = total; }
};

} // namespace

void matvec_q8_0(Range rows, const hotfire_block_q8_0 *weight, const hotfire_block_q8_0 *x,
                 float *y, int64_t n_rows, int64_t n_cols) {
    const int64_t n_blocks = n_cols / BLOCK_LEN;
    if (matvec_q8_0_reads_past_end)
        touch(weight + n_rows * n_blocks);
    if (matvec_q8_0_writes_past_end)
        spoil(y + n_rows);
    const Vector places = {weight, x, y, n_blocks};
    const bool by_row = matvec_q8_0_last_block_dropped || matvec_q8_0_next_scale ||
                        matvec_q8_0_neighbour_scale || matvec_q8_0_scale_in_f16 ||
                        matvec_q8_0_unsigned_codes || matvec_q8_0_code_128_clipped;
    if (!by_row)
        rows.begin += multiply_wide<hotfire_block_q8_0>(places, rows, {0, 1}, n_cols, n_cols, y,
                                                        n_rows);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int64_t s = matvec_q8_0_neighbour_scale && r > 4 ? r - 1 : r;
        y[r] = matvec_q8_0_row(places.row(r), weight + s * n_blocks, x, n_blocks);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_matvec_q8_0(const hotfire_exec *exec,
                                              const hotfire_block_q8_0 *weight,
                                              const hotfire_block_q8_0 *x, float *y,
                                              int64_t n_rows, int64_t n_cols) {
    return Check(exec)
        .size("n_rows", n_rows)
        .size("n_cols", n_cols, matvec_q8_0_multiple_unchecked ? 1 : 32)
        .input("weight", weight, {n_rows, n_cols})
        .input("x", x, {n_cols})
        .output("y", y, {n_rows})
        .run({{n_rows}, {n_cols}, 16}, matvec_q8_0, weight, x, y, n_rows, n_cols);
}

#endif
