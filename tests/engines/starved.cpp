// Every allocation of every call fails, once by itself and once with all that follow: `starved
// MODEL.gguf`. A call must then say OUT_OF_MEMORY and have done nothing, so that the same call
// succeeds afterwards and gives the bits that it gives in an engine that never starved.
#include "hotfire.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

static long n_until_failure = -1, n_failed = 0; // allocations; below 0: none fails
static bool for_good = false;                   // whether those after the first fail too

static bool starves() {
    const bool now = n_until_failure == 0;
    if (n_until_failure > 0 || (now && !for_good))
        --n_until_failure;
    n_failed += now;
    return now;
}

[[gnu::noinline]] void *operator new(std::size_t size) {
    void *made = starves() ? nullptr : std::malloc(size ? size : 1);
    if (!made)
        throw std::bad_alloc();
    return made;
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return starves() ? nullptr : std::malloc(size ? size : 1);
}
[[gnu::noinline]] void operator delete(void *data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void *data, std::size_t) noexcept { std::free(data); }

extern "C" int posix_memalign(void **data, std::size_t alignment, std::size_t size) {
    if (starves())
        return ENOMEM;
    *data = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    return *data ? 0 : ENOMEM;
}

static void expect(bool holds, const char *what, long at) {
    if (holds)
        return;
    std::fprintf(stderr, "%s, with allocation %ld failing\n", what, at);
    std::exit(1);
}

// Calls `call` with its first allocation failing, its second, and so on until it succeeds; each time
// first with all the later ones failing too.
template <class Call> static long starve(const char *what, Call call) {
    for (long at = 0;; ++at) {
        for (const bool all : {true, false}) {
            for_good = all;
            n_until_failure = at;
            n_failed = 0;
            const hotfire_status status = call();
            n_until_failure = -1;
            expect(status == (n_failed ? HOTFIRE_STATUS_OUT_OF_MEMORY : HOTFIRE_STATUS_OK), what, at);
            if (!n_failed)
                return at;
        }
    }
}

static constexpr int N_VOCAB = 16, N_CTX = 24;
static hotfire_context *context;
static hotfire_model *model;

static hotfire_engine *engine_of() {
    const hotfire_engine_params params = {sizeof params, 0, HOTFIRE_KV_F32, N_CTX, 4, 64, 4, 2};
    hotfire_engine *engine = nullptr;
    starve("engine_create", [&] { return hotfire_engine_create(context, model, &params, &engine); });
    return engine;
}

struct Work {
    hotfire_engine *engine;
    bool starving;
    long n_failures = 0;
    std::vector<float> logits;

    template <class Call> void run(const char *what, Call call) {
        if (starving)
            n_failures += starve(what, call);
        else
            expect(call() == HOTFIRE_STATUS_OK, what, -1);
    }

    // A few tokens of some sequences, all of their rows.
    void decode(const std::vector<int32_t> &seq_id) {
        std::vector<int32_t> token, pos;
        std::vector<uint8_t> wanted(seq_id.size(), 1);
        for (size_t i = 0; i < seq_id.size(); ++i) {
            int32_t past = static_cast<int32_t>(hotfire_engine_seq_length(engine, seq_id[i]));
            for (size_t j = 0; j < i; ++j)
                past += seq_id[j] == seq_id[i];
            pos.push_back(past);
            token.push_back((7 * past + seq_id[i]) % N_VOCAB);
        }
        std::vector<float> rows(seq_id.size() * N_VOCAB);
        const hotfire_batch batch = {sizeof batch, static_cast<int32_t>(seq_id.size()), token.data(),
                                     pos.data(), seq_id.data(), wanted.data()};
        hotfire_rows out{};
        out.struct_size = sizeof out;
        out.n_rows = static_cast<int64_t>(seq_id.size());
        out.logits = rows.data();
        std::vector<float> margins(seq_id.size());
        out.router_margin = margins.data();
        run("decode", [&] { return hotfire_engine_decode(engine, &batch, &out); });
        logits.insert(logits.end(), rows.begin(), rows.end());
    }

    void all() {
        decode({0, 0, 0, 1, 0, 0, 1, 2, 0});
        decode({2, 0, 1});
        decode({0, 0, 0, 2, 2, 2, 2, 2});
        run("seq_remove", [&] { return hotfire_engine_seq_remove(engine, 0, 8); });
        run("seq_copy", [&] { return hotfire_engine_seq_copy(engine, 0, 3); });
        decode({3, 0, 0});
        run("seq_copy", [&] { return hotfire_engine_seq_copy(engine, 2, 3); });
        run("seq_remove", [&] { return hotfire_engine_seq_remove(engine, 3, 4); });
        decode({3, 3, 0, 1});
        uint64_t needed = 0;
        std::vector<char> saved(1 << 20);
        run("seq_save", [&] {
            return hotfire_engine_seq_save(engine, 0, saved.data(), saved.size(), &needed);
        });
        run("seq_restore", [&] {
            return hotfire_engine_seq_restore(engine, 1, saved.data(), needed);
        });
        decode({1, 0, 2});
    }
};

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    const hotfire_context_params with = {sizeof with, HOTFIRE_ABI_VERSION, HOTFIRE_BACKEND_CPU,
                                         HOTFIRE_ISA_AUTO, 1};
    starve("context_create", [&] { return hotfire_context_create(&with, &context); });
    const long n_open = starve("model_open", [&] {
        return hotfire_model_open(context, argv[1], &model);
    });
    Work plain{engine_of(), false, 0, {}}, starved{engine_of(), true, 0, {}};
    plain.all();
    starved.all();
    expect(plain.logits.size() == starved.logits.size() &&
               std::memcmp(plain.logits.data(), starved.logits.data(),
                           plain.logits.size() * sizeof(float)) == 0,
           "results differ", -1);
    std::printf("%ld failures of model_open, %ld of calls\n", n_open, starved.n_failures);
    hotfire_engine_free(plain.engine);
    hotfire_engine_free(starved.engine);
    hotfire_model_free(model);
    hotfire_context_free(context);
    return 0;
}
