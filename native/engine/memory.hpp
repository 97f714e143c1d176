// What sequences carry from one token to the next, and how far back each can go.
#pragma once

#include "model.hpp"

#include <vector>

namespace hotfire::engine {

// What rows of the KV cache are stored as.
enum class KvType : uint32_t { f32 = 0, bf16 = 1, q8_0 = 2 };

// The recurrent part of a sequence: for each Gated DeltaNet layer the convolution's last columns
// [width - 1, n_conv], then S [n_value_heads, key_dim, key_dim].
using Recurrent = Buffer<float>;

// A sequence as it was when it had n_tokens; a fresh one (0) has no recurrent part.
struct Snapshot {
    int64_t n_tokens = 0;
    Recurrent recurrent;
};

struct Sequence {
    std::vector<int32_t> tokens;
    Recurrent recurrent; // allocated with the first token, and kept
    std::vector<Snapshot> snapshots; // of ever more tokens
    bool begun = false;         // whether `recurrent` holds anything
    int64_t n_stale = 0;        // rows of the cache that a planted fault leaves behind

    int64_t n_past() const { return static_cast<int64_t>(tokens.size()); }
};

class Memory {
  public:
    Memory(const Model &model, int64_t n_ctx, int64_t n_seqs, KvType kv_type, int64_t n_snapshots);

    int64_t n_ctx() const { return n_ctx_; }
    int64_t n_seqs() const { return static_cast<int64_t>(sequences_.size()); }
    int64_t n_kv() const { return n_ctx_ * n_seqs(); }
    KvType kv_type() const { return kv_type_; }

    Sequence &sequence(int64_t s) { return sequences_[static_cast<size_t>(s)]; }
    const Sequence &sequence(int64_t s) const { return sequences_[static_cast<size_t>(s)]; }
    // The first of a sequence's n_ctx rows in every cache.
    int64_t first_row(int64_t s) const { return s * n_ctx_; }
    void *keys(int64_t layer) { return cache(layer).data(); }
    void *values(int64_t layer) { return cache(layer).data() + cache(layer).size() / 2; }
    // Where a layer's part of a sequence's recurrent state is.
    float *conv(int64_t s, int64_t layer) { return sequence(s).recurrent.data() + offset(layer); }
    float *delta(int64_t s, int64_t layer) { return conv(s, layer) + config_.conv_state(); }

    // Allocates all that a decode of these sequences needs, and takes their snapshots.
    void prepare(const std::vector<int32_t> &seq_ids);
    void clear(int64_t s);
    // How many tokens the newest snapshot of at most `pos` has, -1 if there is none.
    int64_t nearest(int64_t s, int64_t pos) const;
    // That snapshot becomes the present.
    void go_back(int64_t s, int64_t pos);
    void copy(int64_t source, int64_t target);

    uint64_t saved_size(int64_t s) const;
    void save(int64_t s, uint8_t *out) const;
    void restore(int64_t s, const uint8_t *saved, uint64_t n_bytes);

  private:
    struct Saved;

    Buffer<uint8_t> &cache(int64_t layer) { return caches_[static_cast<size_t>(layer)]; }
    const Buffer<uint8_t> &cache(int64_t layer) const { return caches_[static_cast<size_t>(layer)]; }
    int64_t offset(int64_t layer) const { return offsets_[static_cast<size_t>(layer)]; }
    uint64_t kv_bytes(int64_t n_tokens) const;
    template <class Visit> void each_cache_part(int64_t s, int64_t n_tokens, Visit visit) const;
    bool wants_snapshot(const Sequence &sequence) const;
    bool is_full(const Sequence &sequence) const;

    const Model &model_;
    const Config &config_;
    int64_t n_ctx_, n_snapshots_;
    KvType kv_type_;
    uint64_t row_bytes_;
    int64_t recurrent_size_ = 0;
    std::vector<int64_t> offsets_;         // of each layer in `Recurrent`
    std::vector<Buffer<uint8_t>> caches_;  // of each layer: keys, then values
    std::vector<Sequence> sequences_;
};

} // namespace hotfire::engine
