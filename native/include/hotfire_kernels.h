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

/*! hotfire_argmax() : Finds the greatest value of each row; of equal ones the first. Values are no NaN.
 *  y[r] = min {i : x[r, i] = max_j x[r, j]}
 *  x: [n_rows, n_cols] f32, scores.
 *  y: [n_rows] i32, columns.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 1, <= 2147483647.
 */
HOTFIRE_API hotfire_status hotfire_argmax(const hotfire_exec *exec,
    const float *x,
    int32_t *y,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_attention_bf16() : Mixes the bf16 values that a token sees by softmax of its query with the keys.
 *  y[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h / n_groups]) * v[j, h / n_groups]
 *  Token i of the n that sequence s has in this call sees rows kv_begin[s] up to
 *  kv_begin[s] + kv_len[s] - n + i, itself the last; kv_append has written them.
 *  q: [n_tokens, n_kv_heads * n_groups, head_dim] f32, queries.
 *  k: [n_kv, n_kv_heads, head_dim] bf16, keys.
 *  v: [n_kv, n_kv_heads, head_dim] bf16, values.
 *  seq_start: [n_seqs + 1] i32, first token of each sequence, from 0 up to n_tokens.
 *  kv_begin: [n_seqs] i32, first row of each.
 *  kv_len: [n_seqs] i32, rows of each sequence, those of this call's tokens included.
 *  y: [n_tokens, n_kv_heads * n_groups, head_dim] f32, result.
 *  scale: of the scores.
 *  n_tokens: tokens of all sequences, packed, >= 0, <= n_kv.
 *  n_seqs: sequences, >= 1.
 *  n_kv: rows of the pool that holds all sequences' keys and values, >= 0.
 *  n_kv_heads: heads of keys and values, >= 0.
 *  n_groups: query heads a head of keys, >= 0.
 *  head_dim: width of a head, >= 0.
 *  n_splits: parts that the keys are cut into, at most 65536; results do not depend on it, >= 1.
 *  workspace: 4 * n_splits * head_dim + 8 * n_splits bytes.
 *  Differs under HOTFIRE_EXEC_FAST.
 */
HOTFIRE_API hotfire_status hotfire_attention_bf16(const hotfire_exec *exec,
    const float *q,
    const uint16_t *k,
    const uint16_t *v,
    const int32_t *seq_start,
    const int32_t *kv_begin,
    const int32_t *kv_len,
    float *y,
    float scale,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_kv,
    int64_t n_kv_heads,
    int64_t n_groups,
    int64_t head_dim,
    int64_t n_splits);

/*! hotfire_attention_f32() : Mixes the f32 values that a token sees by softmax of its query with the keys.
 *  y[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h / n_groups]) * v[j, h / n_groups]
 *  Token i of the n that sequence s has in this call sees rows kv_begin[s] up to
 *  kv_begin[s] + kv_len[s] - n + i, itself the last; kv_append has written them.
 *  q: [n_tokens, n_kv_heads * n_groups, head_dim] f32, queries.
 *  k: [n_kv, n_kv_heads, head_dim] f32, keys.
 *  v: [n_kv, n_kv_heads, head_dim] f32, values.
 *  seq_start: [n_seqs + 1] i32, first token of each sequence, from 0 up to n_tokens.
 *  kv_begin: [n_seqs] i32, first row of each.
 *  kv_len: [n_seqs] i32, rows of each sequence, those of this call's tokens included.
 *  y: [n_tokens, n_kv_heads * n_groups, head_dim] f32, result.
 *  scale: of the scores.
 *  n_tokens: tokens of all sequences, packed, >= 0, <= n_kv.
 *  n_seqs: sequences, >= 1.
 *  n_kv: rows of the pool that holds all sequences' keys and values, >= 0.
 *  n_kv_heads: heads of keys and values, >= 0.
 *  n_groups: query heads a head of keys, >= 0.
 *  head_dim: width of a head, >= 0.
 *  n_splits: parts that the keys are cut into, at most 65536; results do not depend on it, >= 1.
 *  workspace: 4 * n_splits * head_dim + 8 * n_splits bytes.
 *  Differs under HOTFIRE_EXEC_FAST.
 */
HOTFIRE_API hotfire_status hotfire_attention_f32(const hotfire_exec *exec,
    const float *q,
    const float *k,
    const float *v,
    const int32_t *seq_start,
    const int32_t *kv_begin,
    const int32_t *kv_len,
    float *y,
    float scale,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_kv,
    int64_t n_kv_heads,
    int64_t n_groups,
    int64_t head_dim,
    int64_t n_splits);

/*! hotfire_attention_q8_0() : Mixes the q8_0 values that a token sees by softmax of its query with the keys.
 *  y[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h / n_groups]) * v[j, h / n_groups]
 *  Token i of the n that sequence s has in this call sees rows kv_begin[s] up to
 *  kv_begin[s] + kv_len[s] - n + i, itself the last; kv_append has written them.
 *  q: [n_tokens, n_kv_heads * n_groups, head_dim] f32, queries.
 *  k: [n_kv, n_kv_heads, head_dim] q8_0, keys.
 *  v: [n_kv, n_kv_heads, head_dim] q8_0, values.
 *  seq_start: [n_seqs + 1] i32, first token of each sequence, from 0 up to n_tokens.
 *  kv_begin: [n_seqs] i32, first row of each.
 *  kv_len: [n_seqs] i32, rows of each sequence, those of this call's tokens included.
 *  y: [n_tokens, n_kv_heads * n_groups, head_dim] f32, result.
 *  scale: of the scores.
 *  n_tokens: tokens of all sequences, packed, >= 0, <= n_kv.
 *  n_seqs: sequences, >= 1.
 *  n_kv: rows of the pool that holds all sequences' keys and values, >= 0.
 *  n_kv_heads: heads of keys and values, >= 0.
 *  n_groups: query heads a head of keys, >= 0.
 *  head_dim: width of a head, >= 0, a multiple of 32.
 *  n_splits: parts that the keys are cut into, at most 65536; results do not depend on it, >= 1.
 *  workspace: 4 * n_splits * head_dim + 8 * n_splits bytes.
 *  Differs under HOTFIRE_EXEC_FAST.
 */
HOTFIRE_API hotfire_status hotfire_attention_q8_0(const hotfire_exec *exec,
    const float *q,
    const hotfire_block_q8_0 *k,
    const hotfire_block_q8_0 *v,
    const int32_t *seq_start,
    const int32_t *kv_begin,
    const int32_t *kv_len,
    float *y,
    float scale,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_kv,
    int64_t n_kv_heads,
    int64_t n_groups,
    int64_t head_dim,
    int64_t n_splits);

/*! hotfire_conv1d_causal() : Convolves each channel over time, then SiLU; carries the last columns on.
 *  y[t, c] = silu(sum_j weight[j, c] * u[t - width + 1 + j, c])
 *  u are the columns of the token's sequence: those of state, or zeros where has_state is
 *  0, then x. Afterwards state holds the sequence's last width - 1 columns of u.
 *  x: [n_tokens, n_channels] f32, columns.
 *  weight: [width, n_channels] f32, taps.
 *  seq_start: [n_seqs + 1] i32, first token of each sequence, from 0 up to n_tokens.
 *  has_state: [n_seqs] i32, 0 where a sequence begins and state is not read.
 *  y: [n_tokens, n_channels] f32, result.
 *  state: [n_seqs, width - 1, n_channels] f32, each sequence's last columns before SiLU and convolution; updated.
 *  n_tokens: tokens of all sequences, packed, >= 0.
 *  n_seqs: sequences, >= 1.
 *  n_channels: channels, >= 0.
 *  width: taps, >= 1.
 */
HOTFIRE_API hotfire_status hotfire_conv1d_causal(const hotfire_exec *exec,
    const float *x,
    const float *weight,
    const int32_t *seq_start,
    const int32_t *has_state,
    float *y,
    float *state,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_channels,
    int64_t width);

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

/*! hotfire_gated_delta() : Runs the gated delta rule over each sequence and carries its state on.
 *  S = exp(gate[t]) * S;  delta = beta[t] * (v[t] - k[t]^T S);  S = S + k[t] delta^T
 *  y[t] = scale * q[t]^T S
 *  a head; value head h takes query and key head h / n_groups, or h mod n_k_heads if tiled.
 *  S starts from state, or from zeros where has_state is 0. For |k| <= 1 and beta in
 *  [0, 1] errors do not grow with the number of tokens.
 *  q: [n_tokens, n_k_heads, k_dim] f32, queries, normalised.
 *  k: [n_tokens, n_k_heads, k_dim] f32, keys, normalised.
 *  v: [n_tokens, n_k_heads * n_groups, v_dim] f32, values.
 *  gate: [n_tokens, n_k_heads * n_groups] f32, logarithms of the decay, <= 0.
 *  beta: [n_tokens, n_k_heads * n_groups] f32, how much of a value is written, 0 to 1.
 *  seq_start: [n_seqs + 1] i32, first token of each, 0 up to n_tokens.
 *  has_state: [n_seqs] i32, 0 where a sequence begins, state unread.
 *  y: [n_tokens, n_k_heads * n_groups, v_dim] f32, result.
 *  state: [n_seqs, n_k_heads * n_groups, k_dim, v_dim] f32, S of each sequence and head; updated.
 *  scale: of the queries.
 *  n_tokens: tokens of all sequences, packed, >= 0.
 *  n_seqs: sequences, >= 1.
 *  n_k_heads: query and key heads, >= 0.
 *  n_groups: value heads a key head, >= 0.
 *  k_dim: width of a key, >= 0.
 *  v_dim: width of a value, >= 0.
 *  tiled: 1 if value heads n_k_heads apart share a key head, 0 if neighbours do, >= 0, <= 1.
 */
HOTFIRE_API hotfire_status hotfire_gated_delta(const hotfire_exec *exec,
    const float *q,
    const float *k,
    const float *v,
    const float *gate,
    const float *beta,
    const int32_t *seq_start,
    const int32_t *has_state,
    float *y,
    float *state,
    float scale,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_k_heads,
    int64_t n_groups,
    int64_t k_dim,
    int64_t v_dim,
    int64_t tiled);

/*! hotfire_gated_delta_chunked() : Runs the rule of hotfire_gated_delta, chunk_len tokens of a sequence at once.
 *  With S before the chunk, G(i) the product of exp(gate) from the chunk's first token through
 *  i, and D(j, i) that from j + 1 through i:
 *  delta[i] = beta[i] * (v[i] - G(i) k[i]^T S - sum_{j < i} D(j, i) (k[i]^T k[j]) delta[j])
 *  y[i] = scale * (G(i) q[i]^T S + sum_{j <= i} D(j, i) (q[i]^T k[j]) delta[j])
 *  S = G(last) S + sum_j D(j, last) k[j] delta[j]^T
 *  Results depend, within the bound, on chunk_len and on where calls cut a sequence.
 *  q: [n_tokens, n_k_heads, k_dim] f32, queries, normalised.
 *  k: [n_tokens, n_k_heads, k_dim] f32, keys, normalised.
 *  v: [n_tokens, n_k_heads * n_groups, v_dim] f32, values.
 *  gate: [n_tokens, n_k_heads * n_groups] f32, logarithms of the decay, <= 0.
 *  beta: [n_tokens, n_k_heads * n_groups] f32, how much of a value is written, 0 to 1.
 *  seq_start: [n_seqs + 1] i32, first token of each, 0 up to n_tokens.
 *  has_state: [n_seqs] i32, 0 where a sequence begins, state unread.
 *  y: [n_tokens, n_k_heads * n_groups, v_dim] f32, result.
 *  state: [n_seqs, n_k_heads * n_groups, k_dim, v_dim] f32, S of each sequence and head; updated.
 *  scale: of the queries.
 *  n_tokens: tokens of all sequences, packed, >= 0.
 *  n_seqs: sequences, >= 1.
 *  n_k_heads: query and key heads, >= 0.
 *  n_groups: value heads a key head, >= 0.
 *  k_dim: width of a key, >= 0.
 *  v_dim: width of a value, >= 0.
 *  tiled: 1 if value heads n_k_heads apart share a key head, 0 if neighbours do, >= 0, <= 1.
 *  chunk_len: tokens of a chunk; a sequence's last is shorter, >= 1, <= 64.
 */
HOTFIRE_API hotfire_status hotfire_gated_delta_chunked(const hotfire_exec *exec,
    const float *q,
    const float *k,
    const float *v,
    const float *gate,
    const float *beta,
    const int32_t *seq_start,
    const int32_t *has_state,
    float *y,
    float *state,
    float scale,
    int64_t n_tokens,
    int64_t n_seqs,
    int64_t n_k_heads,
    int64_t n_groups,
    int64_t k_dim,
    int64_t v_dim,
    int64_t tiled,
    int64_t chunk_len);

/*! hotfire_gated_delta_gates() : Makes what gated_delta takes of projections: logarithms of decays, and betas.
 *  gate[t, h] = -exp(a_log[h]) * log(1 + exp(a[t, h] + dt_bias[h]))
 *  beta[t, h] = 1 / (1 + exp(-b[t, h]))
 *  a: [n_tokens, n_heads] f32, steps.
 *  b: [n_tokens, n_heads] f32, before the sigmoid.
 *  a_log: [n_heads] f32, log of rates.
 *  dt_bias: [n_heads] f32, added to a.
 *  gate: [n_tokens, n_heads] f32, logarithm of the decay, <= 0.
 *  beta: [n_tokens, n_heads] f32, 0 to 1.
 *  n_tokens: tokens, >= 0.
 *  n_heads: value heads, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_gated_delta_gates(const hotfire_exec *exec,
    const float *a,
    const float *b,
    const float *a_log,
    const float *dt_bias,
    float *gate,
    float *beta,
    int64_t n_tokens,
    int64_t n_heads);

/*! hotfire_kv_append_bf16() : Stores tokens as bf16 in rows of a cache.
 *  cache[slot[t]] = x[t]
 *  A token whose slot is not in 0 .. n_kv - 1 is padding and goes nowhere; of two with the
 *  same slot the later stays. Other rows keep their bytes.
 *  x: [n_tokens, n_cols] f32, values.
 *  slot: [n_tokens] i32, row of each token.
 *  cache: [n_kv, n_cols] bf16, the rows; updated.
 *  n_tokens: tokens, >= 0.
 *  n_kv: rows of the cache, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_kv_append_bf16(const hotfire_exec *exec,
    const float *x,
    const int32_t *slot,
    uint16_t *cache,
    int64_t n_tokens,
    int64_t n_kv,
    int64_t n_cols);

/*! hotfire_kv_append_f32() : Stores tokens as f32 in rows of a cache.
 *  cache[slot[t]] = x[t]
 *  A token whose slot is not in 0 .. n_kv - 1 is padding and goes nowhere; of two with the
 *  same slot the later stays. Other rows keep their bytes.
 *  x: [n_tokens, n_cols] f32, values.
 *  slot: [n_tokens] i32, row of each token.
 *  cache: [n_kv, n_cols] f32, the rows; updated.
 *  n_tokens: tokens, >= 0.
 *  n_kv: rows of the cache, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_kv_append_f32(const hotfire_exec *exec,
    const float *x,
    const int32_t *slot,
    float *cache,
    int64_t n_tokens,
    int64_t n_kv,
    int64_t n_cols);

/*! hotfire_kv_append_q8_0() : Stores tokens as q8_0 in rows of a cache.
 *  cache[slot[t]] = x[t]
 *  A token whose slot is not in 0 .. n_kv - 1 is padding and goes nowhere; of two with the
 *  same slot the later stays. Other rows keep their bytes.
 *  x: [n_tokens, n_cols] f32, values.
 *  slot: [n_tokens] i32, row of each token.
 *  cache: [n_kv, n_cols] q8_0, the rows; updated.
 *  n_tokens: tokens, >= 0.
 *  n_kv: rows of the cache, >= 0.
 *  n_cols: width of a row, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_kv_append_q8_0(const hotfire_exec *exec,
    const float *x,
    const int32_t *slot,
    hotfire_block_q8_0 *cache,
    int64_t n_tokens,
    int64_t n_kv,
    int64_t n_cols);

/*! hotfire_l2_norm() : Scales each row to unit length.
 *  y[r, i] = x[r, i] / sqrt(sum_j x[r, j]^2 + eps)
 *  x: [n_rows, n_cols] f32, rows.
 *  y: [n_rows, n_cols] f32, result; in place over x.
 *  eps: added to the sum of squares; finite and > 0.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0.
 *  x_stride: elements from one row of x to the next, >= n_cols.
 *  y_stride: elements from one row of y to the next, >= n_cols.
 */
HOTFIRE_API hotfire_status hotfire_l2_norm(const hotfire_exec *exec,
    const float *x,
    float *y,
    float eps,
    int64_t n_rows,
    int64_t n_cols,
    int64_t x_stride,
    int64_t y_stride);

/*! hotfire_matmul_bf16() : Multiplies a bf16 matrix by f32 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  y[t] equals, to the bit, what hotfire_matvec_bf16 makes of x[t], by default.
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
 *  y[t] equals, to the bit, what hotfire_matvec_f32 makes of x[t], by default.
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

/*! hotfire_matmul_grouped_bf16() : Multiplies each f32 vector by the bf16 matrices of its experts.
 *  y[t, u, r] = sum_k weight[expert_ids[t, u], r, k] * x[t, k]
 *  An id that is not in 0 .. n_experts - 1 gives zeros; one that comes twice counts twice.
 *  y[t, u] is, to the bit, what hotfire_matvec_bf16 makes of x[t], by default.
 *  weight: [n_experts, n_rows, n_cols] bf16, the matrices.
 *  x: [n_tokens, n_cols] f32, the vectors.
 *  expert_ids: [n_tokens, n_top_k] i32, whose matrix.
 *  y: [n_tokens, n_top_k, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_top_k: experts a vector, >= 0.
 *  n_experts: experts, >= 0.
 *  n_rows: rows of a matrix, >= 0.
 *  n_cols: columns of a matrix, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matmul_grouped_bf16(const hotfire_exec *exec,
    const uint16_t *weight,
    const float *x,
    const int32_t *expert_ids,
    float *y,
    int64_t n_tokens,
    int64_t n_top_k,
    int64_t n_experts,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_grouped_f32() : Multiplies each f32 vector by the f32 matrices of its experts.
 *  y[t, u, r] = sum_k weight[expert_ids[t, u], r, k] * x[t, k]
 *  An id that is not in 0 .. n_experts - 1 gives zeros; one that comes twice counts twice.
 *  y[t, u] is, to the bit, what hotfire_matvec_f32 makes of x[t], by default.
 *  weight: [n_experts, n_rows, n_cols] f32, the matrices.
 *  x: [n_tokens, n_cols] f32, the vectors.
 *  expert_ids: [n_tokens, n_top_k] i32, whose matrix.
 *  y: [n_tokens, n_top_k, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_top_k: experts a vector, >= 0.
 *  n_experts: experts, >= 0.
 *  n_rows: rows of a matrix, >= 0.
 *  n_cols: columns of a matrix, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_matmul_grouped_f32(const hotfire_exec *exec,
    const float *weight,
    const float *x,
    const int32_t *expert_ids,
    float *y,
    int64_t n_tokens,
    int64_t n_top_k,
    int64_t n_experts,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_grouped_q4_0() : Multiplies each q8_0 vector by the q4_0 matrices of its experts.
 *  y[t, u, r] = sum_k weight[expert_ids[t, u], r, k] * x[t, k]
 *  An id that is not in 0 .. n_experts - 1 gives zeros; one that comes twice counts twice.
 *  y[t, u] is, to the bit, what hotfire_matvec_q4_0 makes of x[t], by default.
 *  weight: [n_experts, n_rows, n_cols] q4_0, the matrices.
 *  x: [n_tokens, n_cols] q8_0, the vectors.
 *  expert_ids: [n_tokens, n_top_k] i32, whose matrix.
 *  y: [n_tokens, n_top_k, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_top_k: experts a vector, >= 0.
 *  n_experts: experts, >= 0.
 *  n_rows: rows of a matrix, >= 0.
 *  n_cols: columns of a matrix, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matmul_grouped_q4_0(const hotfire_exec *exec,
    const hotfire_block_q4_0 *weight,
    const hotfire_block_q8_0 *x,
    const int32_t *expert_ids,
    float *y,
    int64_t n_tokens,
    int64_t n_top_k,
    int64_t n_experts,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_grouped_q8_0() : Multiplies each q8_0 vector by the q8_0 matrices of its experts.
 *  y[t, u, r] = sum_k weight[expert_ids[t, u], r, k] * x[t, k]
 *  An id that is not in 0 .. n_experts - 1 gives zeros; one that comes twice counts twice.
 *  y[t, u] is, to the bit, what hotfire_matvec_q8_0 makes of x[t], by default.
 *  weight: [n_experts, n_rows, n_cols] q8_0, the matrices.
 *  x: [n_tokens, n_cols] q8_0, the vectors.
 *  expert_ids: [n_tokens, n_top_k] i32, whose matrix.
 *  y: [n_tokens, n_top_k, n_rows] f32, the products.
 *  n_tokens: vectors, >= 0.
 *  n_top_k: experts a vector, >= 0.
 *  n_experts: experts, >= 0.
 *  n_rows: rows of a matrix, >= 0.
 *  n_cols: columns of a matrix, >= 0, a multiple of 32.
 */
HOTFIRE_API hotfire_status hotfire_matmul_grouped_q8_0(const hotfire_exec *exec,
    const hotfire_block_q8_0 *weight,
    const hotfire_block_q8_0 *x,
    const int32_t *expert_ids,
    float *y,
    int64_t n_tokens,
    int64_t n_top_k,
    int64_t n_experts,
    int64_t n_rows,
    int64_t n_cols);

/*! hotfire_matmul_q4_0() : Multiplies a q4_0 matrix by q8_0 vectors.
 *  y[t, r] = sum_k weight[r, k] * x[t, k]
 *  y[t] equals, to the bit, what hotfire_matvec_q4_0 makes of x[t], by default.
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
 *  y[t] equals, to the bit, what hotfire_matvec_q8_0 makes of x[t], by default.
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

/*! hotfire_moe_combine() : Adds up a token's experts and the shared one, weighed by the sigmoid of its gate.
 *  y[t, i] = sum_u weights[t, u] * experts[t, u, i]
 *            + shared[t, i] / (1 + exp(-shared_gate[t]))
 *  experts: [n_tokens, n_top_k, n_embd] f32, what the chosen experts gave, zeros for an id out of range.
 *  weights: [n_tokens, n_top_k] f32, their weights.
 *  shared: [n_tokens, n_embd] f32, the shared expert's.
 *  shared_gate: [n_tokens] f32, its gate.
 *  y: [n_tokens, n_embd] f32, sum; in place over shared.
 *  n_tokens: tokens, >= 0.
 *  n_top_k: experts a token, >= 0.
 *  n_embd: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_moe_combine(const hotfire_exec *exec,
    const float *experts,
    const float *weights,
    const float *shared,
    const float *shared_gate,
    float *y,
    int64_t n_tokens,
    int64_t n_top_k,
    int64_t n_embd);

/*! hotfire_moe_route() : Chooses the experts of each token and their weights.
 *  p = softmax(logits[t]);  expert_ids[t] = the n_top_k of greatest p, greatest first, of
 *  equal ones the lower id first;  weights[t, u] = p[expert_ids[t, u]] / their sum
 *  logits: [n_tokens, n_experts] f32, no NaN.
 *  expert_ids: [n_tokens, n_top_k] i32, the chosen.
 *  weights: [n_tokens, n_top_k] f32, their weights.
 *  n_tokens: tokens, >= 0.
 *  n_experts: experts, >= 1.
 *  n_top_k: experts a token, >= 1, <= n_experts.
 */
HOTFIRE_API hotfire_status hotfire_moe_route(const hotfire_exec *exec,
    const float *logits,
    int32_t *expert_ids,
    float *weights,
    int64_t n_tokens,
    int64_t n_experts,
    int64_t n_top_k);

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

/*! hotfire_rms_norm_gated() : Scales each row to unit root mean square and gates it.
 *  y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * weight[i] * silu(gate[t, i])
 *  x: [n_tokens, n_embd] f32, rows.
 *  weight: [n_embd] f32, gain of each column.
 *  gate: [n_tokens, n_embd] f32, gates.
 *  y: [n_tokens, n_embd] f32, result; in place over x.
 *  eps: added to the mean square; finite and > 0.
 *  n_tokens: rows, >= 0.
 *  n_embd: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_rms_norm_gated(const hotfire_exec *exec,
    const float *x,
    const float *weight,
    const float *gate,
    float *y,
    float eps,
    int64_t n_tokens,
    int64_t n_embd);

/*! hotfire_rms_norm_plus_one() : Scales each row to unit root mean square; weights are trained around 0.
 *  y[t, i] = x[t, i] / sqrt(mean_j(x[t, j]^2) + eps) * (1 + weight[i])
 *  x: [n_tokens, n_embd] f32, rows.
 *  weight: [n_embd] f32, gain of each column.
 *  y: [n_tokens, n_embd] f32, result; in place over x.
 *  eps: added to the mean square; finite and > 0.
 *  n_tokens: rows, >= 0.
 *  n_embd: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_rms_norm_plus_one(const hotfire_exec *exec,
    const float *x,
    const float *weight,
    float *y,
    float eps,
    int64_t n_tokens,
    int64_t n_embd);

/*! hotfire_rope_partial() : Turns pairs of a head's first n_rot values by angles that grow with the position.
 *  angle(t, i) = pos[t] * theta^(-2 i / n_rot), i < h = n_rot / 2, formed in f64
 *  y[t, n, i] = x[t, n, i] * cos(angle) - x[t, n, i + h] * sin(angle)
 *  y[t, n, i + h] = x[t, n, i] * sin(angle) + x[t, n, i + h] * cos(angle)
 *  Values past n_rot are copied.
 *  x: [n_tokens, n_heads, head_dim] f32, heads.
 *  pos: [n_tokens] i32, positions.
 *  y: [n_tokens, n_heads, head_dim] f32, heads; in place over x.
 *  theta: base of the frequencies; finite and > 0.
 *  n_tokens: tokens, >= 0.
 *  n_heads: heads, >= 0.
 *  head_dim: width of a head, >= 0.
 *  n_rot: values that turn, >= 0, <= head_dim, a multiple of 2.
 *  x_stride: elements from one row of x to the next, >= head_dim.
 *  y_stride: elements from one row of y to the next, >= head_dim.
 */
HOTFIRE_API hotfire_status hotfire_rope_partial(const hotfire_exec *exec,
    const float *x,
    const int32_t *pos,
    float *y,
    float theta,
    int64_t n_tokens,
    int64_t n_heads,
    int64_t head_dim,
    int64_t n_rot,
    int64_t x_stride,
    int64_t y_stride);

/*! hotfire_sigmoid_gate() : Weighs values by the sigmoid of their gates.
 *  y[r, i] = x[r, i] / (1 + exp(-gate[r, i]))
 *  x: [n_rows, n_cols] f32, values.
 *  gate: [n_rows, n_cols] f32, gates.
 *  y: [n_rows, n_cols] f32, result; in place over x.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_sigmoid_gate(const hotfire_exec *exec,
    const float *x,
    const float *gate,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

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

/*! hotfire_swiglu() : Gates one half of a feed-forward layer by the other.
 *  y[r, i] = gate[r, i] / (1 + exp(-gate[r, i])) * up[r, i]
 *  gate: [n_rows, n_cols] f32, gates.
 *  up: [n_rows, n_cols] f32, what they gate.
 *  y: [n_rows, n_cols] f32, result; in place over gate.
 *  n_rows: rows, >= 0.
 *  n_cols: width of a row, >= 0.
 */
HOTFIRE_API hotfire_status hotfire_swiglu(const hotfire_exec *exec,
    const float *gate,
    const float *up,
    float *y,
    int64_t n_rows,
    int64_t n_cols);

#ifdef __cplusplus
}
#endif

#endif
