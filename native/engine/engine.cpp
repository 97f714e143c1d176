// The C interface of models and engines. Nothing thrown inside crosses it.
#include "forward.hpp"
#include "interface.hpp"
#include "mutant.hpp"

#include <algorithm>
#include <cinttypes>

HOTFIRE_MUTANT(engine, engine_context_one_too_long,
               "a sequence may have one token more than there is room for");
HOTFIRE_MUTANT(engine, engine_second_piece_fails, "a kernel refuses the second piece of a decode");

using namespace hotfire::engine;

struct hotfire_model {
    std::shared_ptr<const Model> model;
};

struct hotfire_engine {
    hotfire_engine(hotfire_context *context, std::shared_ptr<const Model> shared,
                   const hotfire_engine_params &params)
        : context(context), model(std::move(shared)), n_batch(params.n_batch),
          n_ubatch(std::min(params.n_batch, params.n_ubatch)),
          memory(*model, params.n_ctx, params.n_seqs, static_cast<KvType>(params.kv_type),
                 params.n_snapshots),
          forward(context, *model, memory, n_ubatch, params.flags) {}

    hotfire_context *context;
    std::shared_ptr<const Model> model;
    int64_t n_batch, n_ubatch;
    Memory memory;
    Forward forward;
    hotfire_counters counters{};
};

namespace {

constexpr int64_t N_SEQS_MAX = 65536;

template <class Body> hotfire_status on(hotfire_engine *engine, Body body) {
    return guarded(engine ? engine->context : nullptr, [&] {
        check_given("engine", engine);
        check_process(*engine->context, *engine->model);
        body();
    });
}

void check_seq(const hotfire_engine &engine, int64_t seq_id) {
    in_range("seq_id", seq_id, 0, engine.memory.n_seqs() - 1);
}

// A batch, its tokens sorted by sequence, in the order in which those first appear.
struct Sorted {
    std::vector<int32_t> seq_ids, order; // order: places in the batch
    std::vector<int64_t> row;            // of each place in the batch, or -1
};

Sorted sorted(const hotfire_engine &engine, const hotfire_batch &batch) {
    const Memory &memory = engine.memory;
    std::vector<std::vector<int32_t>> places(static_cast<size_t>(memory.n_seqs()));
    Sorted found;
    int64_t n_rows = 0;
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        in_range("token", batch.token[i], 0, engine.model->config().n_vocab - 1);
        check_seq(engine, batch.seq_id[i]);
        std::vector<int32_t> &own = places[static_cast<size_t>(batch.seq_id[i])];
        const int64_t n_past = memory.sequence(batch.seq_id[i]).n_past();
        const int64_t expected = n_past + static_cast<int64_t>(own.size());
        if (batch.pos[i] != expected)
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
                 "sequence %" PRId32 ": position %" PRId32 "; expected %" PRId64
                 ", as it has %" PRId64 " tokens",
                 batch.seq_id[i], batch.pos[i], expected, n_past);
        if (own.empty())
            found.seq_ids.push_back(batch.seq_id[i]);
        own.push_back(i);
        found.row.push_back(batch.wanted[i] ? n_rows++ : -1);
    }
    for (int32_t seq_id : found.seq_ids) {
        const std::vector<int32_t> &own = places[static_cast<size_t>(seq_id)];
        found.order.insert(found.order.end(), own.begin(), own.end());
    }
    return found;
}

void check_room(const hotfire_engine &engine, const hotfire_batch &batch, const Sorted &sorted) {
    std::vector<int64_t> length(static_cast<size_t>(engine.memory.n_seqs()));
    for (int32_t i = 0; i < batch.n_tokens; ++i)
        length[static_cast<size_t>(batch.seq_id[i])] = int64_t{batch.pos[i]} + 1;
    const int64_t n_ctx = engine.memory.n_ctx();
    for (int32_t seq_id : sorted.seq_ids)
        if (length[static_cast<size_t>(seq_id)] > n_ctx + engine_context_one_too_long)
            fail(HOTFIRE_STATUS_CONTEXT_FULL,
                 "sequence %" PRId32 " would have %" PRId64 " tokens; there is room for %" PRId64,
                 seq_id, length[static_cast<size_t>(seq_id)], n_ctx);
}

// The tokens of a sorted batch from `from` on, as many as one piece takes.
Piece piece_of(const hotfire_engine &engine, const hotfire_batch &batch, const Sorted &sorted,
               size_t from) {
    Piece piece;
    const size_t end = std::min(sorted.order.size(), from + static_cast<size_t>(engine.n_ubatch));
    for (size_t i = from; i < end; ++i) {
        const size_t place = static_cast<size_t>(sorted.order[i]);
        const int32_t seq_id = batch.seq_id[place];
        const int64_t at = piece.n_tokens();
        if (piece.runs.empty() || piece.runs.back().seq_id != seq_id)
            piece.runs.push_back({seq_id, at, 0, batch.pos[place]});
        ++piece.runs.back().n;
        piece.tokens.push_back(batch.token[place]);
        piece.pos.push_back(batch.pos[place]);
        if (sorted.row[place] >= 0)
            piece.wanted.push_back({at, sorted.row[place]});
    }
    return piece;
}

// Runs pieces and makes their tokens part of their sequences. It asks for no memory: once begun, it
// ends, unless a kernel refuses; then nothing can be taken back, and the sequences are removed.
void advance(hotfire_engine &engine, const std::vector<Piece> &pieces,
             const std::vector<int32_t> &seq_ids, const hotfire_rows *rows) {
    try {
        for (const Piece &piece : pieces) {
            if (engine_second_piece_fails && &piece == pieces.data() + 1)
                fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "planted");
            engine.forward.run(piece, rows);
            for (const Run &run : piece.runs) {
                Sequence &own = engine.memory.sequence(run.seq_id);
                const auto first = piece.tokens.begin() + run.first;
                own.tokens.insert(own.tokens.end(), first, first + run.n);
                own.begun = true;
            }
            ++engine.counters.n_pieces;
        }
    } catch (const Failure &failure) {
        for (const int32_t seq_id : seq_ids)
            engine.memory.clear(seq_id);
        fail(HOTFIRE_STATUS_INTERNAL, "%.200s", failure.text);
    }
}

void check_rows(const Sorted &sorted, const hotfire_rows *rows) {
    const int64_t n = std::ranges::count_if(sorted.row, [](int64_t row) { return row >= 0; });
    if (n && !rows)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "rows is NULL; expected %" PRId64 " rows", n);
    if (rows && rows->n_rows != n)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "rows.n_rows is %" PRId64 "; expected %" PRId64 ", as many as are wanted",
             rows->n_rows, n);
    if (!rows)
        return;
    if (rows->reserved)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "rows.reserved is %" PRIu32 "; expected 0",
             rows->reserved);
    check_optional("rows.logits", rows->logits);
    check_optional("rows.argmax", rows->argmax);
    check_optional("rows.hidden", rows->hidden);
    check_optional("rows.router_margin", rows->router_margin);
}

void check_memory(const Config &c, const hotfire_batch &batch, const hotfire_rows &rows) {
    const uint64_t n = static_cast<uint64_t>(batch.n_tokens), id = sizeof(int32_t);
    const uint64_t n_rows = static_cast<uint64_t>(rows.n_rows), value = sizeof(float);
    const uint64_t n_vocab = static_cast<uint64_t>(c.n_vocab);
    const uint64_t n_hidden = static_cast<uint64_t>((c.n_layers() + 1) * c.n_embd);
    check_apart({{"batch", &batch, 1, sizeof batch},
                 {"batch.token", batch.token, n, id},
                 {"batch.pos", batch.pos, n, id},
                 {"batch.seq_id", batch.seq_id, n, id},
                 {"batch.wanted", batch.wanted, n, 1},
                 {"rows", &rows, 1, sizeof rows},
                 {"rows.logits", rows.logits, n_rows, n_vocab * value, true},
                 {"rows.argmax", rows.argmax, n_rows, id, true},
                 {"rows.hidden", rows.hidden, n_rows, n_hidden * value, true},
                 {"rows.router_margin", rows.router_margin, n_rows, value, true}});
}

void check_batch(const hotfire_engine &engine, const hotfire_batch &batch) {
    in_range("n_tokens", batch.n_tokens, 1, engine.n_batch);
    check_given("batch.token", batch.token);
    check_given("batch.pos", batch.pos);
    check_given("batch.seq_id", batch.seq_id);
    check_given("batch.wanted", batch.wanted);
}

void decode(hotfire_engine &engine, const hotfire_batch &batch, const hotfire_rows *rows) {
    check_batch(engine, batch);
    const Sorted order = sorted(engine, batch);
    check_rows(order, rows);
    if (rows)
        check_memory(engine.model->config(), batch, *rows);
    check_room(engine, batch, order);
    std::vector<Piece> pieces;
    for (size_t from = 0; from < order.order.size(); from += static_cast<size_t>(engine.n_ubatch))
        pieces.push_back(piece_of(engine, batch, order, from));
    engine.memory.prepare(order.seq_ids);
    advance(engine, pieces, order.seq_ids, rows);
    ++engine.counters.n_decodes;
    engine.counters.n_tokens += batch.n_tokens;
    engine.counters.n_rows += rows ? rows->n_rows : 0;
}

// A sequence's own tokens of [from, end) once more.
std::vector<Piece> pieces_again(const hotfire_engine &engine, int32_t seq_id, int64_t from,
                                int64_t end) {
    const Sequence &own = engine.memory.sequence(seq_id);
    std::vector<Piece> pieces;
    for (int64_t n; from < end; from += n) {
        n = std::min(end - from, engine.n_ubatch);
        Piece piece;
        piece.runs.push_back({seq_id, 0, n, from});
        for (int64_t i = from; i < from + n; ++i) {
            piece.tokens.push_back(own.tokens[static_cast<size_t>(i)]);
            piece.pos.push_back(static_cast<int32_t>(i));
        }
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

// Goes back to a snapshot, then repeats the tokens up to pos.
void go_back(hotfire_engine &engine, int32_t seq_id, int64_t pos) {
    const int64_t from = engine.memory.nearest(seq_id, pos);
    if (from < 0)
        fail(HOTFIRE_STATUS_NO_SNAPSHOT,
             "sequence %" PRId32 " cannot go back to %" PRId64
             " tokens: it has no snapshot of so few",
             seq_id, pos);
    const std::vector<Piece> pieces = pieces_again(engine, seq_id, from, pos);
    const std::vector<int32_t> seq_ids{seq_id};
    engine.memory.go_back(seq_id, pos);
    advance(engine, pieces, seq_ids, nullptr);
    engine.counters.n_tokens_repeated += pos - from;
}

} // namespace

extern "C" hotfire_status hotfire_model_open(hotfire_context *context, const char *path,
                                             hotfire_model **model) {
    return guarded(context, [&] {
        check_given("context", context);
        check_given("path", path);
        check_given("model", model);
        auto made = std::make_unique<hotfire_model>();
        made->model = std::make_shared<const Model>(path);
        *model = made.release();
    });
}

extern "C" void hotfire_model_free(hotfire_model *model) { delete model; }

extern "C" hotfire_status hotfire_model_describe(const hotfire_model *model,
                                                 hotfire_model_info *info) {
    return guarded(nullptr, [&] {
        check_given("model", model);
        check_struct("info", info);
        const Config &c = model->model->config();
        *info = {sizeof *info,
                 static_cast<uint32_t>(c.n_layers()),
                 c.n_vocab,
                 c.n_embd,
                 c.n_ctx_train,
                 c.n_experts,
                 model->model->fingerprint()};
    });
}

extern "C" hotfire_status hotfire_engine_create(hotfire_context *context,
                                                const hotfire_model *model,
                                                const hotfire_engine_params *params,
                                                hotfire_engine **engine) {
    return guarded(context, [&] {
        check_given("context", context);
        check_given("model", model);
        check_given("engine", engine);
        check_struct("params", params);
        in_range("n_ctx", params->n_ctx, 1, INT32_MAX);
        in_range("n_seqs", params->n_seqs, 1, N_SEQS_MAX);
        in_range("n_ctx times n_seqs", int64_t{params->n_ctx} * params->n_seqs, 1, INT32_MAX);
        in_range("n_batch", params->n_batch, 1, INT32_MAX);
        in_range("n_ubatch", params->n_ubatch, 1, INT32_MAX);
        in_range("kv_type", params->kv_type, HOTFIRE_KV_F32, HOTFIRE_KV_Q8_0);
        if (params->flags & ~static_cast<uint32_t>(HOTFIRE_EXEC_FAST))
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
                 "flags are %" PRIu32 "; expected 0 or HOTFIRE_EXEC_FAST", params->flags);
        check_process(*context, *model->model);
        *engine = std::make_unique<hotfire_engine>(context, model->model, *params).release();
    });
}

extern "C" void hotfire_engine_free(hotfire_engine *engine) { delete engine; }

extern "C" hotfire_status hotfire_engine_decode(hotfire_engine *engine, const hotfire_batch *batch,
                                                const hotfire_rows *rows) {
    return on(engine, [&] {
        check_struct("batch", batch);
        if (rows)
            check_struct("rows", rows);
        decode(*engine, *batch, rows);
    });
}

extern "C" int64_t hotfire_engine_seq_length(const hotfire_engine *engine, int32_t seq_id) {
    if (!engine || seq_id < 0 || seq_id >= engine->memory.n_seqs())
        return -1;
    return engine->memory.sequence(seq_id).n_past();
}

extern "C" hotfire_status hotfire_engine_seq_remove(hotfire_engine *engine, int32_t seq_id,
                                                    int64_t pos) {
    return on(engine, [&] {
        check_seq(*engine, seq_id);
        in_range("position", pos, 0, INT64_MAX);
        if (pos >= engine->memory.sequence(seq_id).n_past())
            return;
        if (pos == 0)
            engine->memory.clear(seq_id);
        else
            go_back(*engine, seq_id, pos);
        ++engine->counters.n_removes;
    });
}

extern "C" hotfire_status hotfire_engine_seq_copy(hotfire_engine *engine, int32_t source,
                                                  int32_t target) {
    return on(engine, [&] {
        check_seq(*engine, source);
        check_seq(*engine, target);
        engine->memory.copy(source, target);
        ++engine->counters.n_copies;
    });
}

extern "C" hotfire_status hotfire_engine_seq_save(hotfire_engine *engine, int32_t seq_id,
                                                  void *saved, uint64_t size, uint64_t *needed) {
    return on(engine, [&] {
        check_seq(*engine, seq_id);
        check_given("needed", needed);
        const uint64_t n_bytes = engine->memory.saved_size(seq_id);
        if (saved && size < n_bytes)
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
                 "room for %" PRIu64 " bytes; the sequence takes %" PRIu64, size, n_bytes);
        check_apart({{"needed", needed, 1, sizeof *needed, true},
                     {"saved", saved, saved ? n_bytes : 0, 1, true}});
        *needed = n_bytes;
        if (!saved)
            return;
        engine->memory.save(seq_id, static_cast<uint8_t *>(saved));
        ++engine->counters.n_saves;
    });
}

extern "C" hotfire_status hotfire_engine_seq_restore(hotfire_engine *engine, int32_t seq_id,
                                                     const void *saved, uint64_t size) {
    return on(engine, [&] {
        check_seq(*engine, seq_id);
        check_given("saved", static_cast<const uint8_t *>(saved));
        engine->memory.restore(seq_id, static_cast<const uint8_t *>(saved), size);
        ++engine->counters.n_restores;
    });
}

extern "C" hotfire_status hotfire_engine_counters(const hotfire_engine *engine,
                                                  hotfire_counters *counters) {
    return guarded(engine ? engine->context : nullptr, [&] {
        check_given("engine", engine);
        check_struct("counters", counters);
        *counters = engine->counters;
        counters->struct_size = sizeof *counters;
    });
}
