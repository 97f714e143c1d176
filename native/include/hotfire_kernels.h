/*
 * hotfire_kernels.h: the kernels. Written from the specs in ref/ops by `hotfire abi header`;
 * change those, not this file.
 *
 * The contracts on status, memory, alignment and aliasing are in hotfire.h. Shapes are in
 * brackets, outermost axis first, rows contiguous; a quantised row is n / 32 blocks.
 */
#ifndef HOTFIRE_KERNELS_H
#define HOTFIRE_KERNELS_H

#include "hotfire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hotfire_block_q8_0 {
    uint16_t d;    /* the scale, IEEE binary16 */
    int8_t qs[32]; /* value i is d * qs[i] */
} hotfire_block_q8_0;

typedef struct hotfire_block_q4_0 {
    uint16_t d;     /* the scale, IEEE binary16 */
    uint8_t qs[16]; /* value i is d * ((qs[i] & 15) - 8), value i + 16 is d * ((qs[i] >> 4) - 8) */
} hotfire_block_q4_0;

/*! hotfire_dequantize_q4_0() : Stores q4_0 values as f32, row by row.
 *  y = x
 *  Exact: a code times an f16 scale is an f32.
 *  x: [n_rows, n_cols] q4_0, values.
 *  y: [n_rows, n_cols] f32, values.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_dequantize_q4_0(const hotfire_exec *exec,
    const hotfire_block_q4_0 *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_dequantize_q8_0() : Stores q8_0 values as f32, row by row.
 *  y = x
 *  Exact: a code times an f16 scale is an f32.
 *  x: [n_rows, n_cols] q8_0, values.
 *  y: [n_rows, n_cols] f32, values.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_dequantize_q8_0(const hotfire_exec *exec,
    const hotfire_block_q8_0 *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_bf16() : Multiplies a bf16 matrix by f32 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  Each y[t] equals, to the bit, what hotfire_matvec_bf16 makes of x[t].
 *  weight: [n_rows, n_cols] bf16, the matrix.
 *  x: [n_tokens, n_cols] f32, the vectors.
 *  y: [n_tokens, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matmul_bf16(const hotfire_exec *exec,
    const uint16_t *weight,
    const float *x,
    float *y,
    int64_t n_tokens,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_f32() : Multiplies a f32 matrix by f32 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  Each y[t] equals, to the bit, what hotfire_matvec_f32 makes of x[t].
 *  weight: [n_rows, n_cols] f32, the matrix.
 *  x: [n_tokens, n_cols] f32, the vectors.
 *  y: [n_tokens, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matmul_f32(const hotfire_exec *exec,
    const float *weight,
    const float *x,
    float *y,
    int64_t n_tokens,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_q4_0() : Multiplies a q4_0 matrix by q8_0 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  Each y[t] equals, to the bit, what hotfire_matvec_q4_0 makes of x[t].
 *  weight: [n_rows, n_cols] q4_0, the matrix.
 *  x: [n_tokens, n_cols] q8_0, the vectors.
 *  y: [n_tokens, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matmul_q4_0(const hotfire_exec *exec,
    const hotfire_block_q4_0 *weight,
    const hotfire_block_q8_0 *x,
    float *y,
    int64_t n_tokens,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_q8_0() : Multiplies a q8_0 matrix by q8_0 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  Each y[t] equals, to the bit, what hotfire_matvec_q8_0 makes of x[t].
 *  weight: [n_rows, n_cols] q8_0, the matrix.
 *  x: [n_tokens, n_cols] q8_0, the vectors.
 *  y: [n_tokens, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matmul_q8_0(const hotfire_exec *exec,
    const hotfire_block_q8_0 *weight,
    const hotfire_block_q8_0 *x,
    float *y,
    int64_t n_tokens,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matvec_bf16() : Multiplies a bf16 matrix by a f32 vector.
 *  y[r] = sum_k weight[r, k] * x[k]
 *  weight: [n_rows, n_cols] bf16, the matrix.
 *  x: [n_cols] f32, the vector.
 *  y: [n_rows] f32, the product.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matvec_bf16(const hotfire_exec *exec,
    const uint16_t *weight,
    const float *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matvec_f32() : Multiplies a f32 matrix by a f32 vector.
 *  y[r] = sum_k weight[r, k] * x[k]
 *  weight: [n_rows, n_cols] f32, the matrix.
 *  x: [n_cols] f32, the vector.
 *  y: [n_rows] f32, the product.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matvec_f32(const hotfire_exec *exec,
    const float *weight,
    const float *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matvec_q4_0() : Multiplies a q4_0 matrix by a q8_0 vector.
 *  y[r] = sum_k weight[r, k] * x[k]
 *  weight: [n_rows, n_cols] q4_0, the matrix.
 *  x: [n_cols] q8_0, the vector.
 *  y: [n_rows] f32, the product.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matvec_q4_0(const hotfire_exec *exec,
    const hotfire_block_q4_0 *weight,
    const hotfire_block_q8_0 *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matvec_q8_0() : Multiplies a q8_0 matrix by a q8_0 vector.
 *  y[r] = sum_k weight[r, k] * x[k]
 *  weight: [n_rows, n_cols] q8_0, the matrix.
 *  x: [n_cols] q8_0, the vector.
 *  y: [n_rows] f32, the product.
 *  n_rows: rows of weight, >= 0.
 *  n_cols: columns of weight, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matvec_q8_0(const hotfire_exec *exec,
    const hotfire_block_q8_0 *weight,
    const hotfire_block_q8_0 *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_quantize_q4_0() : Stores f32 values as q4_0, row by row.
 *  y = x
 *  The codes are those of ggml's reference encoder, bit for bit. Values are finite; a
 *  block whose 1 / d overflows f32 is stored as zeros.
 *  x: [n_rows, n_cols] f32, values.
 *  y: [n_rows, n_cols] q4_0, values.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_quantize_q4_0(const hotfire_exec *exec,
    const float *x,
    hotfire_block_q4_0 *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_quantize_q8_0() : Stores f32 values as q8_0, row by row.
 *  y = x
 *  The codes are those of ggml's reference encoder, bit for bit. Values are finite; a
 *  block whose 1 / d overflows f32 is stored as zeros.
 *  x: [n_rows, n_cols] f32, values.
 *  y: [n_rows, n_cols] q8_0, values.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_quantize_q8_0(const hotfire_exec *exec,
    const float *x,
    hotfire_block_q8_0 *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_rms_norm() : Scales each row to unit root mean square.
 *  y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * weight[i]
 *  x: [n_tokens, n_embd] f32, rows.
 *  weight: [n_embd] f32, gain of each column.
 *  y: [n_tokens, n_embd] f32, result; in place over x.
 *  eps: added to the mean square; finite and > 0.
 *  n_tokens: rows, >= 0.
 *  n_embd: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_rms_norm(const hotfire_exec *exec,
    const float *x,
    const float *weight,
    float *y,
    float eps,
    int64_t n_tokens,
    int64_t n_embd);

/*! hotfire_silu() : Weighs each value by its own sigmoid.
 *  y[r, i] = x[r, i] / (1 + exp(-x[r, i]))
 *  x: [n_rows, n_cols] f32, values.
 *  y: [n_rows, n_cols] f32, values; in place over x.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_silu(const hotfire_exec *exec,
    const float *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_softmax() : Turns each row into weights that sum to one.
 *  y[r, i] = exp(x[r, i] - max_j x[r, j]) / sum_k exp(x[r, k] - max_j x[r, j])
 *  An x of -inf masks its column; a row needs one finite x.
 *  x: [n_rows, n_cols] f32, scores.
 *  y: [n_rows, n_cols] f32, weights; in place over x.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_softmax(const hotfire_exec *exec,
    const float *x,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

#ifdef __cplusplus
}
#endif

#endif
