// Products of sixteen quantised rows at a time, a row a lane. They give the bits of products.hpp.
//
// A block's integer products are exact in any order, and each lane then adds its row's blocks one
// after another. VNNI multiplies unsigned bytes by signed ones; what making one side unsigned adds
// is known from the other side, and is taken off where the sum starts.
#pragma once

#include "products.hpp"

#ifdef HOTFIRE_ISA
#ifdef __AVX512VNNI__

namespace hotfire::HOTFIRE_ISA {
namespace {

static constexpr int64_t GROUP = 16;        // rows
static constexpr int64_t MANY = 8;          // columns from which packing rows pays
static constexpr int64_t GROUPS_AT_ONCE = 4; // that are packed together
static constexpr int64_t PIECE = 64;        // blocks of a row that are packed at once

using Ints = __m512i;

static inline Ints dot4(Ints sums, Ints unsigned_bytes, Ints signed_bytes) {
    return _mm512_dpbusd_epi32(sums, unsigned_bytes, signed_bytes);
}

// The codes 0 to 15 and 16 to 31 of a block of four rows, made unsigned by adding OFFSET.
struct Halves {
    Ints low, high;
};

template <class Weight> inline constexpr char OFFSET = static_cast<char>(128);
template <> inline constexpr char OFFSET<hotfire_block_q4_0> = 8;

static inline Ints four(const void *first, int64_t stride) {
    const char *p = static_cast<const char *>(first);
    const auto at = [=](int64_t i) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p + i * stride));
    };
    const Ints two = _mm512_inserti32x4(_mm512_castsi128_si512(at(0)), at(1), 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(two, at(2), 2), at(3), 3);
}

static inline Halves unsigned_codes(const hotfire_block_q4_0 *first, int64_t stride) {
    const Ints pairs = four(first->qs, stride), low = _mm512_set1_epi8(15);
    return {_mm512_and_si512(pairs, low), _mm512_and_si512(_mm512_srli_epi16(pairs, 4), low)};
}

static inline Halves unsigned_codes(const hotfire_block_q8_0 *first, int64_t stride) {
    const Ints sign = _mm512_set1_epi8(static_cast<char>(128));
    return {_mm512_xor_si512(four(first->qs, stride), sign),
            _mm512_xor_si512(four(first->qs + 16, stride), sign)};
}

// Scales of a block of sixteen rows. One by one: a gather takes longer on some processors.
template <class Weight> static inline Vec scales_of(const Weight *rows, int64_t n_stored) {
    const auto at = [=](int64_t i) { return static_cast<int16_t>(rows[i * n_stored].d); };
    return _mm512_cvtph_ps(_mm256_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7),
                                             at(8), at(9), at(10), at(11), at(12), at(13), at(14),
                                             at(15)));
}

// Vector j has the four parts of the sums of rows j, j + 4, j + 8 and j + 12: the sums, in order.
static inline Ints add_parts(const Ints (&parts)[4]) {
    const Ints a = _mm512_add_epi32(_mm512_unpacklo_epi32(parts[0], parts[1]),
                                    _mm512_unpackhi_epi32(parts[0], parts[1]));
    const Ints b = _mm512_add_epi32(_mm512_unpacklo_epi32(parts[2], parts[3]),
                                    _mm512_unpackhi_epi32(parts[2], parts[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// Sixteen rows, `n_stored` blocks apart, times a few columns, over n_blocks.
template <int N, class Weight>
static void few_columns(const Weight *rows, int64_t n_stored, int64_t n_blocks,
                        const hotfire_block_q8_0 *const *columns, Vec (&sums)[N]) {
    const int64_t stride = n_stored * static_cast<int64_t>(sizeof(Weight));
    const Ints offset = _mm512_set1_epi8(OFFSET<Weight>);
    for (Vec &each : sums)
        each = splat(0);
    // What the next sixteen rows need, in the order of addresses: sixteen rows at a time are too many
    // and too short for the processor's own prefetching.
    const char *next = reinterpret_cast<const char *>(rows + GROUP * n_stored);
    for (int64_t b = 0; b < n_blocks; ++b) {
        for (int64_t line = 0; line < GROUP * static_cast<int64_t>(sizeof(Weight)); line += 64)
            __builtin_prefetch(next + line, 0, 2);
        next += GROUP * sizeof(Weight);
        Ints low[N], high[N], start[N], parts[N][4];
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
            const __m128i *codes = reinterpret_cast<const __m128i *>(columns[i][b].qs);
            low[i] = _mm512_broadcast_i32x4(_mm_loadu_si128(codes));
            high[i] = _mm512_broadcast_i32x4(_mm_loadu_si128(codes + 1));
            const Ints added = dot4(dot4(_mm512_setzero_si512(), offset, low[i]), offset, high[i]);
            start[i] = _mm512_sub_epi32(_mm512_setzero_si512(), added);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const Halves codes = unsigned_codes(rows + b + j * n_stored, 4 * stride);
#pragma GCC unroll 4
            for (int i = 0; i < N; ++i)
                parts[i][j] = dot4(dot4(start[i], codes.low, low[i]), codes.high, high[i]);
        }
        const Vec scales = scales_of(rows + b, n_stored);
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i)
            sums[i] = fma(_mm512_cvtepi32_ps(add_parts(parts[i])),
                          scales * to_f32(columns[i][b].d), sums[i]);
    }
}

// A block of sixteen rows: codes 4 g to 4 g + 3 of each, signed.
struct Packed {
    Ints codes[8], start;
    Vec scales;
};

// Vector j has bytes of rows j, j + 4, ...; four of them become four codes a row, rows in order.
static inline void transpose(const Ints (&rows)[4], Ints *codes) {
    const Ints a = _mm512_unpacklo_epi32(rows[0], rows[1]);
    const Ints b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const Ints c = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const Ints d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    codes[0] = _mm512_unpacklo_epi64(a, c);
    codes[1] = _mm512_unpackhi_epi64(a, c);
    codes[2] = _mm512_unpacklo_epi64(b, d);
    codes[3] = _mm512_unpackhi_epi64(b, d);
}

template <class Weight>
static void pack(const Weight *rows, int64_t n_stored, int64_t n_blocks, Packed *packed) {
    const int64_t stride = n_stored * static_cast<int64_t>(sizeof(Weight));
    const Ints offset = _mm512_set1_epi8(OFFSET<Weight>);
    for (int64_t b = 0; b < n_blocks; ++b) {
        Ints low[4], high[4];
        for (int j = 0; j < 4; ++j) {
            const Halves codes = unsigned_codes(rows + b + j * n_stored, 4 * stride);
            low[j] = _mm512_sub_epi8(codes.low, offset);
            high[j] = _mm512_sub_epi8(codes.high, offset);
        }
        transpose(low, packed[b].codes);
        transpose(high, packed[b].codes + 4);
        Ints added = _mm512_setzero_si512();
        for (Ints codes : packed[b].codes)
            added = dot4(added, _mm512_set1_epi8(static_cast<char>(128)), codes);
        packed[b].start = _mm512_sub_epi32(_mm512_setzero_si512(), added);
        packed[b].scales = scales_of(rows + b, n_stored);
    }
}

// Columns side by side, their codes made unsigned by adding 128; those that are missing are zeros.
struct Columns {
    uint8_t codes[PIECE][MANY][BLOCK_LEN];
    float scales[PIECE][MANY];
};

static void gather(const hotfire_block_q8_0 *const *from, int64_t n, int64_t first,
                   int64_t n_blocks, Columns &columns) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(128));
    for (int64_t i = 0; i < MANY; ++i)
        for (int64_t b = 0; b < n_blocks; ++b) {
            const hotfire_block_q8_0 *block = i < n ? from[i] + first + b : nullptr;
            const __m256i signed_codes = block ? codes(*block) : _mm256_setzero_si256();
            _mm256_store_si256(reinterpret_cast<__m256i *>(columns.codes[b][i]),
                               _mm256_xor_si256(signed_codes, sign));
            columns.scales[b][i] = block ? to_f32(block->d) : 0;
        }
}

static void many_columns(const Packed *rows, int64_t n_blocks, const Columns &columns,
                         Vec (&sums)[MANY]) {
    for (int64_t b = 0; b < n_blocks; ++b) {
        Ints totals[MANY];
#pragma GCC unroll 8
        for (Ints &each : totals)
            each = rows[b].start;
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g)
#pragma GCC unroll 8
            for (int i = 0; i < MANY; ++i) {
                int32_t codes;
                __builtin_memcpy(&codes, columns.codes[b][i] + 4 * g, sizeof codes);
                totals[i] = dot4(totals[i], _mm512_set1_epi32(codes), rows[b].codes[g]);
            }
#pragma GCC unroll 8
        for (int i = 0; i < MANY; ++i)
            sums[i] = fma(_mm512_cvtepi32_ps(totals[i]),
                          rows[b].scales * splat(columns.scales[b][i]), sums[i]);
    }
}

// Whole groups of rows times columns, over n_blocks of the n_stored of a row. Between the pieces of
// long rows the sums lie in y, `n_rows` results a token.
template <class Weight, class P>
static void multiply_many(const P &places, Range rows, Range tokens, int64_t n_stored,
                          int64_t n_blocks, float *y, int64_t n_rows) {
    alignas(64) Packed packed[GROUPS_AT_ONCE][PIECE];
    alignas(64) Columns columns;
    for (int64_t r = rows.begin; r < rows.end; r += GROUPS_AT_ONCE * GROUP)
        for (int64_t first = 0; first < n_blocks; first += PIECE) {
            const int64_t n_piece = n_blocks - first < PIECE ? n_blocks - first : PIECE;
            const int64_t left = (rows.end - r) / GROUP;
            const int64_t n_groups = left < GROUPS_AT_ONCE ? left : GROUPS_AT_ONCE;
            for (int64_t g = 0; g < n_groups; ++g)
                pack(places.row(r + g * GROUP) + first, n_stored, n_piece, packed[g]);
            for (int64_t t = tokens.begin; t < tokens.end; t += MANY) {
                const int64_t n = tokens.end - t < MANY ? tokens.end - t : MANY;
                const hotfire_block_q8_0 *from[MANY];
                for (int64_t i = 0; i < n; ++i)
                    from[i] = places.column(t + i);
                gather(from, n, first, n_piece, columns);
                for (int64_t g = 0; g < n_groups; ++g) {
                    float *out = y + t * n_rows + r + g * GROUP;
                    Vec sums[MANY];
                    for (int64_t i = 0; i < MANY; ++i)
                        sums[i] = first > 0 && i < n ? load(out + i * n_rows) : splat(0);
                    many_columns(packed[g], n_piece, columns, sums);
                    for (int64_t i = 0; i < n; ++i) {
                        float totals[GROUP];
                        store(totals, sums[i]);
                        if (first + n_piece < n_blocks)
                            store(out + i * n_rows, sums[i]);
                        for (int64_t j = 0; j < GROUP && first + n_piece == n_blocks; ++j)
                            places.put(t + i, r + g * GROUP + j, totals[j]);
                    }
                }
            }
        }
}

template <int N, class Weight, class P>
static void multiply_few(const P &places, int64_t r, int64_t t, int64_t n, int64_t n_stored,
                         int64_t n_blocks) {
    if constexpr (N > 1)
        if (n < N)
            return multiply_few<N - 1, Weight>(places, r, t, n, n_stored, n_blocks);
    const hotfire_block_q8_0 *columns[N];
    for (int i = 0; i < N; ++i)
        columns[i] = places.column(t + i);
    Vec sums[N];
    few_columns<N, Weight>(places.row(r), n_stored, n_blocks, columns, sums);
    for (int i = 0; i < N; ++i) {
        float totals[GROUP];
        store(totals, sums[i]);
        for (int64_t j = 0; j < GROUP; ++j)
            places.put(t + i, r + j, totals[j]);
    }
}

// Whole groups of the rows times the columns, and how many rows that was.
template <class Weight, class P>
static int64_t multiply_wide(const P &places, Range rows, Range tokens, int64_t n_stored,
                             int64_t n_summed, float *y, int64_t n_rows) {
    if constexpr (!IS_QUANTISED<Weight>)
        return 0;
    else {
        const int64_t n_stored_blocks = elements<Weight>(n_stored);
        const int64_t n_blocks = elements<Weight>(n_summed), n = tokens.end - tokens.begin;
        const int64_t whole = (rows.end - rows.begin) / GROUP * GROUP;
        const bool many = n >= MANY && n_blocks > 0;
        if (many)
            multiply_many<Weight>(places, {rows.begin, rows.begin + whole}, tokens,
                                  n_stored_blocks, n_blocks, y, n_rows);
        for (int64_t r = rows.begin; r < rows.begin + whole && !many; r += GROUP)
            for (int64_t t = tokens.begin; t < tokens.end; t += 4)
                multiply_few<4, Weight>(places, r, t, tokens.end - t, n_stored_blocks, n_blocks);
        return whole;
    }
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#else

namespace hotfire::HOTFIRE_ISA {
namespace {

template <class Weight, class P>
static int64_t multiply_wide(const P &, Range, Range, int64_t, int64_t, float *, int64_t) {
    return 0;
}

} // namespace
} // namespace hotfire::HOTFIRE_ISA

#endif
#endif
