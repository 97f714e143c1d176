// A Qwen3.5 text model, dense or of experts, as llama.cpp stores it (arch qwen35, qwen35moe).
//
// Matrices stay in the mapped file; vectors, a few kilobytes, are copied as f32. The formulas are
// those of ref/models/layers.py. What GGUF changes against the family's checkpoints
// (ref/models/gguf_file.py): norm weights carry the 1, ssm_a is -exp(A_log), value heads are tiled.
#pragma once

#include "buffer.hpp"
#include "gguf.hpp"

#include <span>
#include <sys/types.h>

namespace hotfire::engine {

struct Config {
    int64_t n_vocab, n_embd, n_ff; // n_ff is 0 for experts
    int64_t n_heads, n_kv_heads, head_dim, n_rot;
    int64_t n_key_heads, n_value_heads, key_dim, conv_width;
    int64_t n_experts, n_experts_used, n_ff_expert, n_ff_shared; // 0 in a dense model
    int64_t n_ctx_train;
    float rope_theta, eps;
    std::vector<bool> full_attention; // of each layer

    int64_t n_layers() const { return static_cast<int64_t>(full_attention.size()); }
    int64_t n_groups() const { return n_value_heads / n_key_heads; }
    int64_t q_width() const { return n_heads * head_dim; }
    int64_t kv_width() const { return n_kv_heads * head_dim; }
    int64_t key_width() const { return n_key_heads * key_dim; }
    int64_t value_width() const { return n_value_heads * key_dim; }
    int64_t n_conv() const { return 2 * key_width() + value_width(); }
    int64_t conv_state() const { return (conv_width - 1) * n_conv(); }
    int64_t delta_state() const { return value_width() * key_dim; }
};

// [n, n_rows, n_cols], n matrices of which a plain one has 1. f16 becomes f32 when it is loaded.
struct Matrix {
    Dtype dtype = Dtype::f32;
    const void *data = nullptr;
    int64_t n = 0, n_rows = 0, n_cols = 0;

    bool quantised() const { return dtype == Dtype::q8_0 || dtype == Dtype::q4_0; }
};

struct Mlp {
    Matrix gate, up, down;
};

struct Layer {
    Buffer<float> norm, mlp_norm;
    // Full attention: q gives [query | gate] a head.
    Matrix q, k, v, out;
    Buffer<float> q_norm, k_norm;
    // Gated DeltaNet, whose output is `out` too.
    Matrix qkv, z, a, b;
    Buffer<float> conv /* [width, n_conv] */, a_log, dt_bias, delta_norm;
    // Feed forward; in a model of experts `mlp` is the shared one.
    Mlp mlp, experts;
    Matrix router, shared_gate;
};

class Model {
  public:
    // Throws Failure if the file cannot be used.
    explicit Model(const char *path);

    const Config &config() const { return config_; }
    const Matrix &embedding() const { return embedding_; }
    const Matrix &head() const { return head_; }
    const Buffer<float> &norm() const { return norm_; }
    const Layer &layer(int64_t l) const { return layers_[static_cast<size_t>(l)]; }
    // Of the fields that results depend on; of names, types, shapes and first bytes of tensors.
    uint64_t fingerprint() const { return fingerprint_; }
    // Whether this is the process that opened it.
    bool same_process() const;

  private:
    Config read_config() const;
    std::vector<bool> read_kinds(const std::string &arch, int64_t n_layers) const;
    Matrix matrix(const std::string &name, int64_t n_rows, int64_t n_cols, int64_t n = 1);
    Buffer<float> vector(const std::string &name, int64_t n) const;
    Layer read_layer(int64_t l);
    void read_attention(Layer &layer, const std::string &prefix);
    void read_delta_net(Layer &layer, const std::string &prefix);
    void read_mlp(Layer &layer, const std::string &prefix);
    uint64_t make_fingerprint() const;

    Gguf file_;
    std::vector<Buffer<float>> converted_;
    Config config_;
    Matrix embedding_, head_;
    Buffer<float> norm_;
    std::vector<Layer> layers_;
    uint64_t fingerprint_;
    pid_t process_;
};

// FNV-1a, 64 bits, over bytes after others.
uint64_t fnv1a(const void *data, uint64_t n_bytes, uint64_t hash = 0xCBF29CE484222325u);

} // namespace hotfire::engine
