#include "memory.hpp"

#include "hotfire_kernels.h"
#include "mutant.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

HOTFIRE_MUTANT(engine, engine_slot_not_cleared,
               "a sequence in a used slot begins with the recurrent state of the one before");
HOTFIRE_MUTANT(engine, engine_kv_slot_not_cleared,
               "a sequence in a used slot sees the keys of the one before");
HOTFIRE_MUTANT(engine, engine_rollback_keeps_state,
               "rolling back a whole batch does not restore the recurrent state");
HOTFIRE_MUTANT(engine, engine_copy_shares_no_state, "a copy begins without the recurrent state");
HOTFIRE_MUTANT(engine, engine_copy_lacks_last_row, "a copy lacks the last token's keys and values");
HOTFIRE_MUTANT(engine, engine_copy_snapshots_of_now, "a copy's snapshots hold its present state");

namespace hotfire::engine {

namespace {

uint64_t row_bytes(KvType type, int64_t width) {
    const uint64_t n = static_cast<uint64_t>(width);
    switch (type) {
    case KvType::f32: return n * sizeof(float);
    case KvType::bf16: return n * sizeof(uint16_t);
    case KvType::q8_0: return n / 32 * sizeof(hotfire_block_q8_0);
    }
    fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "kv_type %" PRIu32 "; expected a hotfire_kv_type",
         static_cast<uint32_t>(type));
}

void copy_floats(Recurrent &to, const Recurrent &from) {
    std::memcpy(to.data(), from.data(), from.n_bytes());
}

} // namespace

// What a saved sequence begins with; after it: tokens, keys and values, recurrent state.
struct Memory::Saved {
    char magic[8];
    uint64_t fingerprint, checksum;
    uint32_t kv_type, reserved;
    int64_t n_tokens;

    static constexpr char MAGIC[9] = "hfseq002";
};

Memory::Memory(const Model &model, int64_t n_ctx, int64_t n_seqs, KvType kv_type,
               int64_t n_snapshots)
    : model_(model), config_(model.config()), n_ctx_(n_ctx), n_snapshots_(n_snapshots),
      kv_type_(kv_type), row_bytes_(row_bytes(kv_type, config_.kv_width())),
      sequences_(static_cast<size_t>(n_seqs)) {
    if (kv_type == KvType::q8_0 && config_.head_dim % 32)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "a q8_0 cache needs heads of a multiple of 32 values; the model's have %" PRId64,
             config_.head_dim);
    for (const bool full : config_.full_attention) {
        offsets_.push_back(recurrent_size_);
        caches_.emplace_back();
        if (full)
            caches_.back() = Buffer<uint8_t>(static_cast<uint64_t>(n_kv()), 2 * row_bytes_);
        else if (__builtin_add_overflow(recurrent_size_,
                                        config_.conv_state() + config_.delta_state(),
                                        &recurrent_size_))
            fail(HOTFIRE_STATUS_OUT_OF_MEMORY, "the recurrent state has more values than 64 bits");
    }
}

void Memory::prepare(const std::vector<int32_t> &seq_ids) {
    const uint64_t n_floats = static_cast<uint64_t>(recurrent_size_);
    std::vector<Recurrent> taken(seq_ids.size());
    for (size_t i = 0; i < seq_ids.size(); ++i) { // what may fail comes first
        Sequence &own = sequence(seq_ids[i]);
        own.tokens.reserve(static_cast<size_t>(n_ctx_));
        if (!own.recurrent)
            own.recurrent = Recurrent(n_floats);
        if (!wants_snapshot(own))
            continue;
        if (own.snapshots.size() == own.snapshots.capacity())
            own.snapshots.reserve(2 * own.snapshots.size() + 1);
        if (own.begun && !(is_full(own) && own.snapshots.front().recurrent))
            taken[i] = Recurrent(n_floats);
    }
    for (size_t i = 0; i < seq_ids.size(); ++i) {
        Sequence &own = sequence(seq_ids[i]);
        if (!wants_snapshot(own))
            continue;
        if (is_full(own)) { // the oldest gives way, and its memory if it has any
            std::ranges::rotate(own.snapshots, own.snapshots.begin() + 1);
            if (own.begun && own.snapshots.back().recurrent)
                taken[i] = std::move(own.snapshots.back().recurrent);
            own.snapshots.pop_back();
        }
        if (own.begun)
            copy_floats(taken[i], own.recurrent);
        own.snapshots.push_back({own.n_past(), std::move(taken[i])});
    }
}

// Where a sequence went back to a snapshot, it is there already.
bool Memory::wants_snapshot(const Sequence &own) const {
    return n_snapshots_ && recurrent_size_ &&
           (own.snapshots.empty() || own.snapshots.back().n_tokens != own.n_past());
}

bool Memory::is_full(const Sequence &own) const {
    return own.snapshots.size() == static_cast<size_t>(n_snapshots_);
}

void Memory::clear(int64_t s) {
    Sequence &own = sequence(s);
    own.n_stale = engine_kv_slot_not_cleared && 2 * own.n_past() < n_ctx_ ? own.n_past() : 0;
    own.tokens.clear();
    own.snapshots.clear();
    own.begun = own.begun && engine_slot_not_cleared;
}

int64_t Memory::nearest(int64_t s, int64_t pos) const {
    if (recurrent_size_ == 0) // keys and values alone: a shorter sequence is all
        return pos;
    int64_t found = -1;
    for (const Snapshot &then : sequence(s).snapshots)
        found = then.n_tokens <= pos ? then.n_tokens : found;
    return found;
}

void Memory::go_back(int64_t s, int64_t pos) {
    Sequence &own = sequence(s);
    if (recurrent_size_ == 0)
        return own.tokens.resize(static_cast<size_t>(pos));
    while (own.snapshots.back().n_tokens > pos)
        own.snapshots.pop_back();
    const Snapshot &then = own.snapshots.back();
    const bool kept = engine_rollback_keeps_state && then.n_tokens == pos;
    own.begun = static_cast<bool>(then.recurrent);
    if (own.begun && !kept)
        copy_floats(own.recurrent, then.recurrent);
    own.tokens.resize(static_cast<size_t>(then.n_tokens));
}

void Memory::copy(int64_t source, int64_t target) {
    if (source == target)
        return;
    const Sequence &from = sequence(source);
    Sequence made;
    made.tokens.reserve(static_cast<size_t>(n_ctx_));
    made.tokens = from.tokens;
    made.n_stale = from.n_stale;
    made.begun = from.begun && !engine_copy_shares_no_state;
    made.recurrent = Recurrent(static_cast<uint64_t>(recurrent_size_));
    if (from.begun)
        copy_floats(made.recurrent, from.recurrent);
    for (const Snapshot &then : from.snapshots) {
        made.snapshots.emplace_back();
        made.snapshots.back().n_tokens = then.n_tokens;
        if (!then.recurrent)
            continue;
        made.snapshots.back().recurrent = Recurrent(static_cast<uint64_t>(recurrent_size_));
        copy_floats(made.snapshots.back().recurrent,
                    engine_copy_snapshots_of_now ? from.recurrent : then.recurrent);
    }
    std::vector<const uint8_t *> parts;
    const bool lacks_one = engine_copy_lacks_last_row && from.n_past() > 0;
    const int64_t n_rows = from.n_past() + from.n_stale - lacks_one;
    each_cache_part(source, n_rows, [&](const uint8_t *part, uint64_t) { parts.push_back(part); });
    size_t next = 0;
    each_cache_part(target, n_rows, [&](uint8_t *part, uint64_t n_bytes) {
        if (n_bytes)
            std::memcpy(part, parts[next], n_bytes);
        ++next;
    });
    sequence(target) = std::move(made);
}

// Calls visit(bytes, how many) for the first rows of a sequence in every cache, keys and values.
template <class Visit>
void Memory::each_cache_part(int64_t s, int64_t n_rows, Visit visit) const {
    const uint64_t from = static_cast<uint64_t>(first_row(s)) * row_bytes_;
    for (const Buffer<uint8_t> &cache : caches_) {
        if (!cache)
            continue;
        uint8_t *rows = const_cast<uint8_t *>(cache.data());
        for (uint8_t *part : {rows, rows + cache.size() / 2})
            visit(part + from, static_cast<uint64_t>(n_rows) * row_bytes_);
    }
}

uint64_t Memory::kv_bytes(int64_t n_tokens) const {
    uint64_t n_bytes = 0;
    each_cache_part(0, n_tokens, [&](const uint8_t *, uint64_t n) { n_bytes += n; });
    return n_bytes;
}

uint64_t Memory::saved_size(int64_t s) const {
    const Sequence &own = sequence(s);
    return sizeof(Saved) + own.tokens.size() * sizeof(int32_t) + kv_bytes(own.n_past()) +
           (own.n_past() ? static_cast<uint64_t>(recurrent_size_) * sizeof(float) : 0);
}

void Memory::save(int64_t s, uint8_t *out) const {
    const Sequence &own = sequence(s);
    uint8_t *at = out + sizeof(Saved);
    const auto put = [&](const void *from, uint64_t n_bytes) {
        if (n_bytes)
            std::memcpy(at, from, n_bytes);
        at += n_bytes;
    };
    put(own.tokens.data(), own.tokens.size() * sizeof(int32_t));
    each_cache_part(s, own.n_past(), put);
    if (own.n_past())
        put(own.recurrent.data(), own.recurrent.n_bytes());
    Saved head{{}, model_.fingerprint(), 0, static_cast<uint32_t>(kv_type_), 0, own.n_past()};
    std::memcpy(head.magic, Saved::MAGIC, sizeof head.magic);
    head.checksum = fnv1a(out + sizeof head, static_cast<uint64_t>(at - out) - sizeof head);
    std::memcpy(out, &head, sizeof head);
}

void Memory::restore(int64_t s, const uint8_t *saved, uint64_t n_bytes) {
    Saved head{};
    if (n_bytes < sizeof head)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "%" PRIu64 " bytes are no saved sequence, which has at least %zu", n_bytes,
             sizeof head);
    std::memcpy(&head, saved, sizeof head);
    if (std::memcmp(head.magic, Saved::MAGIC, sizeof head.magic) != 0)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "these bytes are no saved sequence");
    if (head.fingerprint != model_.fingerprint() || head.kv_type != static_cast<uint32_t>(kv_type_))
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "the saved sequence is of another model, or of another type of cache");
    if (head.n_tokens < 0 || head.n_tokens > n_ctx_)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "the saved sequence has %" PRId64 " tokens; there is room for %" PRId64, head.n_tokens,
             n_ctx_);
    const uint64_t n_tokens = static_cast<uint64_t>(head.n_tokens);
    const uint64_t n_floats = n_tokens ? static_cast<uint64_t>(recurrent_size_) : 0;
    const uint64_t n_body = n_tokens * sizeof(int32_t) + kv_bytes(head.n_tokens) +
                            n_floats * sizeof(float);
    if (head.reserved || n_bytes - sizeof head != n_body || fnv1a(saved + sizeof head, n_body) != head.checksum)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "the saved sequence is damaged");
    Sequence made;
    made.tokens.reserve(static_cast<size_t>(n_ctx_));
    made.recurrent = Recurrent(static_cast<uint64_t>(recurrent_size_));
    made.begun = n_tokens > 0;
    const uint8_t *at = saved + sizeof head;
    const auto take = [&](void *to, uint64_t n) {
        if (n)
            std::memcpy(to, at, n);
        at += n;
    };
    made.tokens.resize(n_tokens);
    take(made.tokens.data(), n_tokens * sizeof(int32_t));
    for (int32_t token : made.tokens)
        if (token < 0 || token >= config_.n_vocab)
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "the saved sequence has the token %" PRId32,
                 token);
    each_cache_part(s, head.n_tokens, take);
    take(made.recurrent.data(), n_floats * sizeof(float));
    sequence(s) = std::move(made);
}

} // namespace hotfire::engine
