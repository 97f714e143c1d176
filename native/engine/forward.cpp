#include "forward.hpp"

#include "mutant.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

HOTFIRE_MUTANT(engine, engine_history_lost_at_chunk_start,
               "the convolution's history is lost where a piece of several tokens starts");
HOTFIRE_MUTANT(engine, engine_conv_of_neighbour,
               "a sequence reads the convolution's history of the one before it in the batch");
HOTFIRE_MUTANT(engine, engine_final_gate_at_wrong_index,
               "S after a run of several tokens lacks the decay of the last one");
HOTFIRE_MUTANT(engine, engine_rope_over_whole_head, "all values of a head turn, not the first n_rot");
HOTFIRE_MUTANT(engine, engine_writes_past_state,
               "one byte past a sequence's recurrent state is written");
HOTFIRE_MUTANT(engine, engine_argmax_in_order, "argmax rows lie as sequences do, not as the batch");
HOTFIRE_MUTANT(engine, engine_writes_past_rows, "one byte past the rows of logits is written");

namespace hotfire::engine {

namespace {

constexpr int64_t HEAD_ROWS = 32; // rows of logits that are computed at once
constexpr float L2_EPS = 1e-6f;

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

} // namespace

Forward::Forward(hotfire_context *context, const Model &model, Memory &memory, int64_t n_tokens,
                 uint32_t flags)
    : model_(model), c_(model.config()), memory_(memory) {
    const uint64_t n = size(n_tokens);
    const int64_t n_used = c_.n_experts_used;
    const int64_t n_ff = std::max({c_.n_ff, c_.n_ff_shared, n_used * c_.n_ff_expert});
    const int64_t wide = std::max(c_.n_conv(), 2 * c_.q_width());
    const int64_t mixed = std::max(c_.value_width(), c_.q_width());
    for (Buffer<float> *each : {&x_, &h_, &mixed_})
        *each = Buffer<float>(n, size(c_.n_embd));
    for (Buffer<float> *each : {&wide_, &conv_})
        *each = Buffer<float>(n, size(wide));
    for (Buffer<float> *each : {&q_, &k_, &v_, &z_, &out_})
        *each = Buffer<float>(n, size(std::max(mixed, c_.key_width())));
    for (Buffer<float> *each : {&a_, &b_, &gate_, &beta_})
        *each = Buffer<float>(n, size(c_.n_value_heads));
    for (Buffer<float> *each : {&ff_gate_, &ff_up_})
        *each = Buffer<float>(n, size(n_ff));
    router_ = Buffer<float>(n, size(c_.n_experts));
    shares_ = Buffer<float>(n, size(n_used));
    experts_ = Buffer<float>(n, size(n_used * c_.n_embd));
    shared_gate_ = Buffer<float>(n);
    expert_ids_ = Buffer<int32_t>(n, size(n_used));
    slots_ = Buffer<int32_t>(n);
    seq_start_ = Buffer<int32_t>(n, 2);
    for (Buffer<int32_t> *each : {&kv_begin_, &kv_len_})
        *each = Buffer<int32_t>(n);
    blocks_ = Buffer<hotfire_block_q8_0>(n, size(std::max({c_.n_embd, mixed, n_ff}) / 32 + 1));
    logits_ = Buffer<float>(HEAD_ROWS, size(c_.n_vocab));
    workspace_ = Buffer<uint8_t>(size(4 * c_.head_dim + 8));
    exec_ = {sizeof exec_, flags, context, nullptr, workspace_.data(), workspace_.size()};
}

void Forward::must(hotfire_status status) const {
    if (status != HOTFIRE_STATUS_OK)
        fail(status, "%s", hotfire_context_error(exec_.context));
}

const hotfire_block_q8_0 *Forward::quantised(const float *x, int64_t n, int64_t n_cols) {
    must(hotfire_quantize_q8_0(exec(), x, blocks_.data(), n, n_cols));
    return blocks_.data();
}

// y[t] = weight x[t] for several weights of one x, which is quantised once at most.
void Forward::multiply(const float *x, int64_t n, std::initializer_list<Product> products) {
    const hotfire_block_q8_0 *blocks = nullptr;
    for (const auto &[w, y] : products) {
        if (w.quantised() && !blocks)
            blocks = quantised(x, n, w.n_cols);
        switch (w.dtype) {
        case Dtype::bf16:
            must(hotfire_matmul_bf16(exec(), static_cast<const uint16_t *>(w.data), x, y, n,
                                     w.n_rows, w.n_cols));
            break;
        case Dtype::q8_0:
            must(hotfire_matmul_q8_0(exec(), static_cast<const hotfire_block_q8_0 *>(w.data),
                                     blocks, y, n, w.n_rows, w.n_cols));
            break;
        case Dtype::q4_0:
            must(hotfire_matmul_q4_0(exec(), static_cast<const hotfire_block_q4_0 *>(w.data),
                                     blocks, y, n, w.n_rows, w.n_cols));
            break;
        default:
            must(hotfire_matmul_f32(exec(), static_cast<const float *>(w.data), x, y, n, w.n_rows,
                                    w.n_cols));
        }
    }
}

// y[t, u] = weight[expert_ids[t, u]] x[t], n_top_k experts a row of x.
void Forward::multiply_grouped(const Matrix &w, const float *x, int64_t n, int64_t n_top_k,
                               float *y) {
    const int32_t *ids = expert_ids_.data();
    switch (w.dtype) {
    case Dtype::bf16:
        return must(hotfire_matmul_grouped_bf16(exec(), static_cast<const uint16_t *>(w.data), x,
                                                ids, y, n, n_top_k, w.n, w.n_rows, w.n_cols));
    case Dtype::q8_0:
        return must(hotfire_matmul_grouped_q8_0(
            exec(), static_cast<const hotfire_block_q8_0 *>(w.data), quantised(x, n, w.n_cols), ids,
            y, n, n_top_k, w.n, w.n_rows, w.n_cols));
    case Dtype::q4_0:
        return must(hotfire_matmul_grouped_q4_0(
            exec(), static_cast<const hotfire_block_q4_0 *>(w.data), quantised(x, n, w.n_cols), ids,
            y, n, n_top_k, w.n, w.n_rows, w.n_cols));
    default:
        return must(hotfire_matmul_grouped_f32(exec(), static_cast<const float *>(w.data), x, ids,
                                               y, n, n_top_k, w.n, w.n_rows, w.n_cols));
    }
}

void Forward::norm(const float *x, const Buffer<float> &weight, float *y, int64_t n) {
    must(hotfire_rms_norm(exec(), x, weight.data(), y, c_.eps, n,
                          static_cast<int64_t>(weight.size())));
}

void Forward::embed(const Piece &piece) {
    const Matrix &w = model_.embedding();
    const int64_t n = c_.n_embd;
    for (int64_t t = 0; t < piece.n_tokens(); ++t) {
        const int64_t row = piece.tokens[size(t)];
        float *x = x_.data() + t * n;
        switch (w.dtype) {
        case Dtype::bf16: {
            const uint16_t *bits = static_cast<const uint16_t *>(w.data) + row * n;
            for (int64_t i = 0; i < n; ++i) {
                const uint32_t wide = static_cast<uint32_t>(bits[i]) << 16;
                std::memcpy(x + i, &wide, sizeof wide);
            }
            break;
        }
        case Dtype::q8_0:
            must(hotfire_dequantize_q8_0(
                exec(), static_cast<const hotfire_block_q8_0 *>(w.data) + row * n / 32, x, 1, n));
            break;
        case Dtype::q4_0:
            must(hotfire_dequantize_q4_0(
                exec(), static_cast<const hotfire_block_q4_0 *>(w.data) + row * n / 32, x, 1, n));
            break;
        default:
            std::memcpy(x, static_cast<const float *>(w.data) + row * n, size(n) * sizeof(float));
        }
    }
}

// h_ -> mixed_, by full attention: out(attention(q, k, v) * sigmoid(gate)).
void Forward::attend(const Piece &piece, const Layer &layer, int64_t l) {
    const int64_t n = piece.n_tokens(), dim = c_.head_dim;
    multiply(h_.data(), n,
             {{layer.q, wide_.data()}, {layer.k, k_.data()}, {layer.v, v_.data()}});
    for (int64_t i = 0; i < n * c_.n_heads; ++i) { // [query | gate] a head
        const float *both = wide_.data() + 2 * i * dim;
        std::memcpy(q_.data() + i * dim, both, size(dim) * sizeof(float));
        std::memcpy(z_.data() + i * dim, both + dim, size(dim) * sizeof(float));
    }
    norm(q_.data(), layer.q_norm, q_.data(), n * c_.n_heads);
    norm(k_.data(), layer.k_norm, k_.data(), n * c_.n_kv_heads);
    const int64_t n_rot = engine_rope_over_whole_head ? dim : c_.n_rot;
    must(hotfire_rope_partial(exec(), q_.data(), piece.pos.data(), q_.data(), c_.rope_theta, n,
                              c_.n_heads, dim, n_rot, dim, dim));
    must(hotfire_rope_partial(exec(), k_.data(), piece.pos.data(), k_.data(), c_.rope_theta, n,
                              c_.n_kv_heads, dim, n_rot, dim, dim));
    for (const Run &run : piece.runs) {
        const Sequence &own = memory_.sequence(run.seq_id);
        for (int64_t i = 0; i < run.n; ++i)
            slots_.data()[run.first + i] = static_cast<int32_t>(
                memory_.first_row(run.seq_id) + own.n_stale + run.n_past + i);
    }
    append(k_.data(), memory_.keys(l), n);
    append(v_.data(), memory_.values(l), n);
    attend_cached(piece, l);
    must(hotfire_sigmoid_gate(exec(), out_.data(), z_.data(), out_.data(), n, c_.q_width()));
    multiply(out_.data(), n, {{layer.out, mixed_.data()}});
}

void Forward::append(float *x, void *cache, int64_t n) {
    const int64_t n_kv = memory_.n_kv(), width = c_.kv_width();
    switch (memory_.kv_type()) {
    case KvType::f32:
        return must(hotfire_kv_append_f32(exec(), x, slots_.data(), static_cast<float *>(cache), n,
                                          n_kv, width));
    case KvType::bf16:
        return must(hotfire_kv_append_bf16(exec(), x, slots_.data(),
                                           static_cast<uint16_t *>(cache), n, n_kv, width));
    case KvType::q8_0:
        return must(hotfire_kv_append_q8_0(exec(), x, slots_.data(),
                                           static_cast<hotfire_block_q8_0 *>(cache), n, n_kv,
                                           width));
    }
}

// q_ -> out_, over the cache.
void Forward::attend_cached(const Piece &piece, int64_t l) {
    const int64_t n_seqs = static_cast<int64_t>(piece.runs.size());
    for (int64_t s = 0; s < n_seqs; ++s) {
        const Run &run = piece.runs[size(s)];
        seq_start_.data()[s] = static_cast<int32_t>(run.first);
        kv_begin_.data()[s] = static_cast<int32_t>(memory_.first_row(run.seq_id));
        kv_len_.data()[s] =
            static_cast<int32_t>(memory_.sequence(run.seq_id).n_stale + run.n_past + run.n);
    }
    seq_start_.data()[n_seqs] = static_cast<int32_t>(piece.n_tokens());
    const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c_.head_dim)));
    const auto call = [&](auto kernel, auto *of_type) {
        using Stored = std::remove_pointer_t<decltype(of_type)>;
        must(kernel(exec(), q_.data(), static_cast<const Stored *>(memory_.keys(l)),
                    static_cast<const Stored *>(memory_.values(l)), seq_start_.data(),
                    kv_begin_.data(), kv_len_.data(), out_.data(), scale, piece.n_tokens(), n_seqs,
                    memory_.n_kv(), c_.n_kv_heads, c_.n_heads / c_.n_kv_heads, c_.head_dim, 1));
    };
    switch (memory_.kv_type()) {
    case KvType::f32: return call(hotfire_attention_f32, static_cast<float *>(nullptr));
    case KvType::bf16: return call(hotfire_attention_bf16, static_cast<uint16_t *>(nullptr));
    case KvType::q8_0:
        return call(hotfire_attention_q8_0, static_cast<hotfire_block_q8_0 *>(nullptr));
    }
}

// h_ -> mixed_, by a Gated DeltaNet: out(norm(delta(q, k, v)) * silu(z)).
void Forward::delta_net(const Piece &piece, const Layer &layer, int64_t l) {
    const int64_t n = piece.n_tokens(), heads = c_.n_value_heads;
    multiply(h_.data(), n,
             {{layer.qkv, wide_.data()},
              {layer.z, z_.data()},
              {layer.a, a_.data()},
              {layer.b, b_.data()}});
    must(hotfire_gated_delta_gates(exec(), a_.data(), b_.data(), layer.a_log.data(),
                                   layer.dt_bias.data(), gate_.data(), beta_.data(), n, heads));
    for (const Run &run : piece.runs)
        convolve(piece, run, layer, l);
    for (int64_t t = 0; t < n; ++t) { // [q | k | v] a token
        const float *u = conv_.data() + t * c_.n_conv();
        const int64_t keys = c_.key_width(), values = c_.value_width();
        std::memcpy(q_.data() + t * keys, u, size(keys) * sizeof(float));
        std::memcpy(k_.data() + t * keys, u + keys, size(keys) * sizeof(float));
        std::memcpy(v_.data() + t * values, u + 2 * keys, size(values) * sizeof(float));
    }
    for (float *each : {q_.data(), k_.data()})
        must(hotfire_l2_norm(exec(), each, each, L2_EPS, n * c_.n_key_heads, c_.key_dim, c_.key_dim,
                             c_.key_dim));
    for (const Run &run : piece.runs)
        run_delta(piece, run, l);
    must(hotfire_rms_norm_gated(exec(), out_.data(), layer.delta_norm.data(), z_.data(),
                                out_.data(), c_.eps, n * heads, c_.key_dim));
    multiply(out_.data(), n, {{layer.out, mixed_.data()}});
}

void Forward::convolve(const Piece &piece, const Run &run, const Layer &layer, int64_t l) {
    const int32_t seq_start[] = {0, static_cast<int32_t>(run.n)};
    const bool lost = engine_history_lost_at_chunk_start && run.n > 1;
    const int32_t has_state = memory_.sequence(run.seq_id).begun && !lost;
    float *state = memory_.conv(run.seq_id, l);
    if (engine_conv_of_neighbour && has_state && piece.runs.size() > 1) {
        const Run &other = &run == piece.runs.data() ? piece.runs.back() : *(&run - 1);
        std::memcpy(state, memory_.conv(other.seq_id, l), size(c_.conv_state()) * sizeof(float));
    }
    must(hotfire_conv1d_causal(exec(), wide_.data() + run.first * c_.n_conv(), layer.conv.data(),
                               seq_start, &has_state, conv_.data() + run.first * c_.n_conv(), state,
                               run.n, 1, c_.n_conv(), c_.conv_width));
}

void Forward::run_delta(const Piece &, const Run &run, int64_t l) {
    const int32_t seq_start[] = {0, static_cast<int32_t>(run.n)};
    const int32_t has_state = memory_.sequence(run.seq_id).begun;
    const int64_t heads = c_.n_value_heads;
    const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c_.key_dim)));
    float *state = memory_.delta(run.seq_id, l);
    must(hotfire_gated_delta(
        exec(), q_.data() + run.first * c_.key_width(), k_.data() + run.first * c_.key_width(),
        v_.data() + run.first * c_.value_width(), gate_.data() + run.first * heads,
        beta_.data() + run.first * heads, seq_start, &has_state,
        out_.data() + run.first * c_.value_width(), state, scale, run.n, 1, c_.n_key_heads,
        c_.n_groups(), c_.key_dim, c_.key_dim, 1));
    if (engine_final_gate_at_wrong_index && run.n > 1)
        for (int64_t i = 0; i < c_.delta_state(); ++i)
            state[i] *= std::exp(-gate_.data()[(run.first + run.n - 1) * heads +
                                               i / (c_.key_dim * c_.key_dim)]);
}

// h_ -> mixed_: down(silu(gate(h)) * up(h)).
void Forward::mlp(const Mlp &mlp, int64_t n_ff, int64_t n) {
    multiply(h_.data(), n, {{mlp.gate, ff_gate_.data()}, {mlp.up, ff_up_.data()}});
    must(hotfire_swiglu(exec(), ff_gate_.data(), ff_up_.data(), ff_gate_.data(), n, n_ff));
    multiply(ff_gate_.data(), n, {{mlp.down, mixed_.data()}});
}

// h_ -> mixed_: the experts that the router chooses, and the shared one.
void Forward::mixture(const Piece &piece, const Layer &layer, const hotfire_rows *rows) {
    const int64_t n = piece.n_tokens(), n_used = c_.n_experts_used;
    multiply(h_.data(), n, {{layer.router, router_.data()}});
    must(hotfire_moe_route(exec(), router_.data(), expert_ids_.data(), shares_.data(), n,
                           c_.n_experts, n_used));
    if (rows && rows->router_margin)
        keep_margin(piece, rows);
    multiply_grouped(layer.experts.gate, h_.data(), n, n_used, ff_gate_.data());
    multiply_grouped(layer.experts.up, h_.data(), n, n_used, ff_up_.data());
    must(hotfire_swiglu(exec(), ff_gate_.data(), ff_up_.data(), ff_gate_.data(), n * n_used,
                        c_.n_ff_expert));
    multiply_grouped(layer.experts.down, ff_gate_.data(), n * n_used, 1, experts_.data());
    mlp(layer.mlp, c_.n_ff_shared, n);
    multiply(h_.data(), n, {{layer.shared_gate, shared_gate_.data()}});
    must(hotfire_moe_combine(exec(), experts_.data(), shares_.data(), mixed_.data(),
                             shared_gate_.data(), mixed_.data(), n, n_used, c_.n_embd));
}

// The least over layers of (last chosen - first not chosen) / RMS of the router's logits.
void Forward::keep_margin(const Piece &piece, const hotfire_rows *rows) const {
    const int64_t n = c_.n_experts, n_used = c_.n_experts_used;
    for (const Wanted &wanted : piece.wanted) {
        const float *logits = router_.data() + wanted.token * n;
        const int32_t *chosen = expert_ids_.data() + wanted.token * n_used; // the best comes first
        double squares = 0, other = -HUGE_VAL;
        for (int32_t e = 0; e < n; ++e) {
            const double logit = logits[e];
            squares += logit * logit;
            if (std::find(chosen, chosen + n_used, e) == chosen + n_used)
                other = std::max(other, logit);
        }
        const double rms = std::sqrt(squares / static_cast<double>(n));
        const double distance = logits[chosen[n_used - 1]] - other;
        const double margin = n_used == n ? HUGE_VAL : rms > 0 ? distance / rms : 0;
        float &least = rows->router_margin[wanted.row];
        least = std::min(least, static_cast<float>(margin));
    }
}

void Forward::keep_hidden(const Piece &piece, int64_t layer, const hotfire_rows *rows) const {
    if (!rows || !rows->hidden)
        return;
    for (const Wanted &wanted : piece.wanted)
        std::memcpy(rows->hidden + (wanted.row * (c_.n_layers() + 1) + layer) * c_.n_embd,
                    x_.data() + wanted.token * c_.n_embd, size(c_.n_embd) * sizeof(float));
}

void Forward::run(const Piece &piece, const hotfire_rows *rows) {
    const int64_t n = piece.n_tokens();
    if (engine_writes_past_state) {
        const Recurrent &state = memory_.sequence(piece.runs[0].seq_id).recurrent;
        spoil(const_cast<float *>(state.data() + state.size()));
    }
    if (engine_writes_past_rows && rows && rows->logits)
        spoil(rows->logits + rows->n_rows * c_.n_vocab);
    const auto add = [&] {
        for (int64_t i = 0; i < n * c_.n_embd; ++i)
            x_.data()[i] += mixed_.data()[i];
    };
    if (rows && rows->router_margin)
        for (const Wanted &wanted : piece.wanted)
            rows->router_margin[wanted.row] = HUGE_VALF;
    embed(piece);
    keep_hidden(piece, 0, rows);
    for (int64_t l = 0; l < c_.n_layers(); ++l) {
        const Layer &layer = model_.layer(l);
        norm(x_.data(), layer.norm, h_.data(), n);
        if (c_.full_attention[size(l)])
            attend(piece, layer, l);
        else
            delta_net(piece, layer, l);
        add();
        norm(x_.data(), layer.mlp_norm, h_.data(), n);
        if (c_.n_experts)
            mixture(piece, layer, rows);
        else
            mlp(layer.mlp, c_.n_ff, n);
        add();
        keep_hidden(piece, l + 1, rows);
    }
    if (rows)
        finish(piece, rows);
}

// The wanted tokens' logits, some rows at a time; h_ and mixed_ are free by now.
void Forward::finish(const Piece &piece, const hotfire_rows *rows) {
    const int64_t n_wanted = static_cast<int64_t>(piece.wanted.size()), n_embd = c_.n_embd;
    for (int64_t from = 0; from < n_wanted; from += HEAD_ROWS) {
        const int64_t n = std::min(HEAD_ROWS, n_wanted - from);
        const Wanted *wanted = piece.wanted.data() + from;
        for (int64_t i = 0; i < n; ++i)
            std::memcpy(h_.data() + i * n_embd, x_.data() + wanted[i].token * n_embd,
                        size(n_embd) * sizeof(float));
        norm(h_.data(), model_.norm(), h_.data(), n);
        multiply(h_.data(), n, {{model_.head(), logits_.data()}});
        int32_t ids[HEAD_ROWS];
        if (rows->argmax)
            must(hotfire_argmax(exec(), logits_.data(), ids, n, c_.n_vocab));
        for (int64_t i = 0; i < n; ++i) {
            if (rows->argmax)
                rows->argmax[engine_argmax_in_order ? from + i : wanted[i].row] = ids[i];
            if (rows->logits)
                std::memcpy(rows->logits + wanted[i].row * c_.n_vocab,
                            logits_.data() + i * c_.n_vocab, size(c_.n_vocab) * sizeof(float));
        }
    }
}

} // namespace hotfire::engine
