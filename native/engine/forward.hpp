// One pass of tokens through the model: x += mixer(norm(x)); x += mlp(norm(x)).
#pragma once

#include "hotfire_kernels.h"
#include "memory.hpp"

#include <initializer_list>

namespace hotfire::engine {

// Tokens of one sequence within a piece.
struct Run {
    int32_t seq_id;
    int64_t first, n; // in the piece
    int64_t n_past;   // tokens of the sequence before them
};

// A token of a piece whose results are wanted, and which row they are.
struct Wanted {
    int64_t token, row;
};

// Tokens that are computed at once, those of a sequence together.
struct Piece {
    std::vector<int32_t> tokens, pos;
    std::vector<Run> runs;
    std::vector<Wanted> wanted;

    int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
};

class Forward {
  public:
    Forward(hotfire_context *context, const Model &model, Memory &memory, int64_t n_tokens,
            uint32_t flags);

    // Runs a piece of at most n_tokens and fills the wanted rows; `rows` may be NULL.
    void run(const Piece &piece, const hotfire_rows *rows);

  private:
    const hotfire_exec *exec() const { return &exec_; }
    void must(hotfire_status status) const;
    struct Product {
        const Matrix &weight;
        float *y;
    };

    void multiply(const float *x, int64_t n, std::initializer_list<Product> products);
    void multiply_grouped(const Matrix &weight, const float *x, int64_t n, int64_t n_top_k,
                          float *y);
    const hotfire_block_q8_0 *quantised(const float *x, int64_t n, int64_t n_cols);
    void norm(const float *x, const Buffer<float> &weight, float *y, int64_t n);
    void embed(const Piece &piece);
    void attend(const Piece &piece, const Layer &layer, int64_t l);
    void append(float *x, void *cache, int64_t n);
    void attend_cached(const Piece &piece, int64_t l);
    void delta_net(const Piece &piece, const Layer &layer, int64_t l);
    void run_delta(const Piece &piece, const Run &run, int64_t l);
    void convolve(const Piece &piece, const Run &run, const Layer &layer, int64_t l);
    void mlp(const Mlp &mlp, int64_t n_ff, int64_t n);
    void mixture(const Piece &piece, const Layer &layer, const hotfire_rows *rows);
    void keep_hidden(const Piece &piece, int64_t layer, const hotfire_rows *rows) const;
    void keep_margin(const Piece &piece, const hotfire_rows *rows) const;
    void finish(const Piece &piece, const hotfire_rows *rows);

    hotfire_exec exec_{};
    const Model &model_;
    const Config &c_;
    Memory &memory_;

    Buffer<float> x_, h_, mixed_;          // [n, n_embd]
    Buffer<float> wide_, conv_;            // [n, n_conv] or [n, 2 * q_width]
    Buffer<float> q_, k_, v_, z_, out_;    // [n, heads * dim]; z is the gate, out what is mixed
    Buffer<float> a_, b_, gate_, beta_;    // [n, n_value_heads]
    Buffer<float> ff_gate_, ff_up_;        // [n, n_ff] or [n, n_experts_used, n_ff_expert]
    Buffer<float> router_, shares_, experts_, shared_gate_;
    Buffer<int32_t> expert_ids_, slots_, seq_start_, kv_begin_, kv_len_;
    Buffer<hotfire_block_q8_0> blocks_;
    Buffer<float> logits_;                 // [HEAD_ROWS, n_vocab]
    Buffer<uint8_t> workspace_;
};

} // namespace hotfire::engine
