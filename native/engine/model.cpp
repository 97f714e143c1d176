#include "model.hpp"

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <unistd.h>

namespace hotfire::engine {

namespace {

constexpr int64_t SIZE_MAX_OF_MODEL = 1 << 24; // beyond it a file is damaged or hostile
constexpr int64_t LAYERS_MAX = 1024;
constexpr int64_t STATE_MAX = int64_t{1} << 40; // values of a layer's S

template <class T> T at(const uint8_t *data, int64_t i) {
    T value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE binary16. The exponent's bias grows from 15 to 127; a subnormal is its fraction times 2^-24.
float from_f16(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 0)
        return std::copysign(static_cast<float>(fraction) * 0x1p-24f, sign ? -1.0f : 1.0f);
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float value(const Tensor &tensor, int64_t i) {
    switch (tensor.dtype) {
    case Dtype::f32: return at<float>(tensor.data, i);
    case Dtype::f16: return from_f16(at<uint16_t>(tensor.data, i));
    default: return from_bf16(at<uint16_t>(tensor.data, i));
    }
}

bool plain(Dtype dtype) {
    return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

} // namespace

uint64_t fnv1a(const void *data, uint64_t n_bytes, uint64_t hash) {
    const uint8_t *byte = static_cast<const uint8_t *>(data);
    for (uint64_t i = 0; i < n_bytes; ++i)
        hash = (hash ^ byte[i]) * 0x100000001B3u;
    return hash;
}

Model::Model(const char *path) : file_(path), config_(read_config()), process_(getpid()) {
    const Config &c = config_;
    embedding_ = matrix("token_embd.weight", c.n_vocab, c.n_embd);
    const bool tied = !file_.has("output.weight");
    head_ = tied ? embedding_ : matrix("output.weight", c.n_vocab, c.n_embd);
    norm_ = vector("output_norm.weight", c.n_embd);
    for (int64_t l = 0; l < c.n_layers(); ++l)
        layers_.push_back(read_layer(l));
    fingerprint_ = make_fingerprint();
}

bool Model::same_process() const { return getpid() == process_; }

Config Model::read_config() const {
    const std::string arch = file_.text("general.architecture");
    if (arch != "qwen35" && arch != "qwen35moe")
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "architecture %.40s; expected qwen35 or qwen35moe",
             arch.c_str());
    const bool moe = arch == "qwen35moe";
    const auto size = [&](const char *key, int64_t most = SIZE_MAX_OF_MODEL) {
        return file_.whole(arch + "." + key, 1, most);
    };
    const Tensor &embedding = file_.tensor("token_embd.weight");
    Config c{};
    c.n_vocab = embedding.sizes.size() == 2 ? embedding.sizes[1] : 0;
    if (c.n_vocab < 1 || c.n_vocab > SIZE_MAX_OF_MODEL)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "token_embd.weight is no matrix of tokens");
    c.n_embd = size("embedding_length");
    c.n_heads = size("attention.head_count");
    c.n_kv_heads = size("attention.head_count_kv", c.n_heads);
    c.head_dim = size("attention.key_length");
    c.n_rot = size("rope.dimension_count", c.head_dim);
    c.n_key_heads = size("ssm.group_count");
    c.n_value_heads = size("ssm.time_step_rank");
    c.key_dim = size("ssm.state_size");
    c.conv_width = size("ssm.conv_kernel", 64);
    c.n_ctx_train = size("context_length", INT32_MAX);
    c.rope_theta = static_cast<float>(file_.real(arch + ".rope.freq_base"));
    c.eps = static_cast<float>(file_.real(arch + ".attention.layer_norm_rms_epsilon"));
    if (moe) {
        c.n_experts = size("expert_count");
        c.n_experts_used = size("expert_used_count", c.n_experts);
        c.n_ff_expert = size("expert_feed_forward_length");
        c.n_ff_shared = size("expert_shared_feed_forward_length");
    } else {
        c.n_ff = size("feed_forward_length");
    }
    if (c.n_heads % c.n_kv_heads || c.n_value_heads % c.n_key_heads || c.n_rot % 2 ||
        size("ssm.inner_size", INT64_MAX) != c.value_width())
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "%" PRId64 " heads on %" PRId64 ", %" PRId64 " value heads of %" PRId64 " on %" PRId64
             ", %" PRId64 " values that turn: these do not fit together",
             c.n_heads, c.n_kv_heads, c.n_value_heads, c.key_dim, c.n_key_heads, c.n_rot);
    if (c.value_width() > STATE_MAX / c.key_dim)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "%" PRId64 " value heads of %" PRId64 " make a state that is absurd", c.n_value_heads,
             c.key_dim);
    const int64_t n_mtp = file_.whole(arch + ".nextn_predict_layers", 0, LAYERS_MAX, 0);
    c.full_attention = read_kinds(arch, size("block_count", LAYERS_MAX) - n_mtp);
    return c;
}

std::vector<bool> Model::read_kinds(const std::string &arch, int64_t n_layers) const {
    if (n_layers < 1)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "the file has no layers");
    std::vector<bool> kinds = file_.flags(arch + ".attention.recurrent_layers", n_layers);
    const bool listed = !kinds.empty();
    const int64_t interval = file_.whole(arch + ".full_attention_interval", 1, LAYERS_MAX, 4);
    kinds.resize(static_cast<size_t>(n_layers));
    for (int64_t l = 0; l < n_layers; ++l) {
        const size_t i = static_cast<size_t>(l);
        kinds[i] = listed ? !kinds[i] : (l + 1) % interval == 0;
    }
    return kinds;
}

Matrix Model::matrix(const std::string &name, int64_t n_rows, int64_t n_cols, int64_t n) {
    const Tensor &tensor = file_.tensor(name);
    const auto axis = [&](size_t i) { return i < tensor.sizes.size() ? tensor.sizes[i] : 1; };
    const bool fits = axis(0) == n_cols && axis(1) == n_rows && axis(2) == n && axis(3) == 1;
    if (!fits)
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "tensor %.80s has another shape than the fields say: %" PRId64 " times %" PRId64
             " rows of %" PRId64 " values",
             name.c_str(), n, n_rows, n_cols);
    if (tensor.dtype != Dtype::f16)
        return {tensor.dtype, tensor.data, n, n_rows, n_cols};
    Buffer<float> wide(static_cast<uint64_t>(tensor.n_values()));
    for (int64_t i = 0; i < tensor.n_values(); ++i)
        wide.data()[i] = value(tensor, i);
    converted_.push_back(std::move(wide));
    return {Dtype::f32, converted_.back().data(), n, n_rows, n_cols};
}

Buffer<float> Model::vector(const std::string &name, int64_t n) const {
    const Tensor &tensor = file_.tensor(name);
    if (tensor.n_values() != n || !plain(tensor.dtype))
        fail(HOTFIRE_STATUS_INVALID_ARGUMENT,
             "tensor %.80s has %" PRId64 " values of %s; expected %" PRId64 " of f32, f16 or bf16",
             name.c_str(), tensor.n_values(), engine::name(tensor.dtype), n);
    Buffer<float> values(static_cast<uint64_t>(n));
    for (int64_t i = 0; i < n; ++i)
        values.data()[i] = value(tensor, i);
    return values;
}

Layer Model::read_layer(int64_t l) {
    const std::string prefix = "blk." + std::to_string(l) + ".";
    Layer layer;
    layer.norm = vector(prefix + "attn_norm.weight", config_.n_embd);
    layer.mlp_norm = vector(prefix + "post_attention_norm.weight", config_.n_embd);
    if (config_.full_attention[static_cast<size_t>(l)])
        read_attention(layer, prefix);
    else
        read_delta_net(layer, prefix);
    read_mlp(layer, prefix);
    return layer;
}

void Model::read_attention(Layer &layer, const std::string &prefix) {
    const Config &c = config_;
    layer.q = matrix(prefix + "attn_q.weight", 2 * c.q_width(), c.n_embd);
    layer.k = matrix(prefix + "attn_k.weight", c.kv_width(), c.n_embd);
    layer.v = matrix(prefix + "attn_v.weight", c.kv_width(), c.n_embd);
    layer.out = matrix(prefix + "attn_output.weight", c.n_embd, c.q_width());
    layer.q_norm = vector(prefix + "attn_q_norm.weight", c.head_dim);
    layer.k_norm = vector(prefix + "attn_k_norm.weight", c.head_dim);
}

void Model::read_delta_net(Layer &layer, const std::string &prefix) {
    const Config &c = config_;
    layer.qkv = matrix(prefix + "attn_qkv.weight", c.n_conv(), c.n_embd);
    layer.z = matrix(prefix + "attn_gate.weight", c.value_width(), c.n_embd);
    layer.a = matrix(prefix + "ssm_alpha.weight", c.n_value_heads, c.n_embd);
    layer.b = matrix(prefix + "ssm_beta.weight", c.n_value_heads, c.n_embd);
    layer.out = matrix(prefix + "ssm_out.weight", c.n_embd, c.value_width());
    layer.dt_bias = vector(prefix + "ssm_dt.bias", c.n_value_heads);
    layer.delta_norm = vector(prefix + "ssm_norm.weight", c.key_dim);
    layer.a_log = vector(prefix + "ssm_a", c.n_value_heads);
    for (float &rate : std::span(layer.a_log.data(), layer.a_log.size())) {
        if (!(rate < 0))
            fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "tensor %.80sssm_a has %g; expected below 0",
                 prefix.c_str(), static_cast<double>(rate));
        rate = static_cast<float>(std::log(-static_cast<double>(rate)));
    }
    const Buffer<float> taps = vector(prefix + "ssm_conv1d.weight", c.n_conv() * c.conv_width);
    layer.conv = Buffer<float>(taps.size());
    for (int64_t channel = 0; channel < c.n_conv(); ++channel)
        for (int64_t tap = 0; tap < c.conv_width; ++tap)
            layer.conv.data()[tap * c.n_conv() + channel] =
                taps.data()[channel * c.conv_width + tap];
}

void Model::read_mlp(Layer &layer, const std::string &prefix) {
    const Config &c = config_;
    const auto mlp = [&](const char *suffix, int64_t n_ff, int64_t n) {
        const auto part = [&](const char *name) { return prefix + name + suffix + ".weight"; };
        return Mlp{matrix(part("ffn_gate"), n_ff, c.n_embd, n),
                   matrix(part("ffn_up"), n_ff, c.n_embd, n),
                   matrix(part("ffn_down"), c.n_embd, n_ff, n)};
    };
    if (!c.n_experts) {
        layer.mlp = mlp("", c.n_ff, 1);
        return;
    }
    layer.mlp = mlp("_shexp", c.n_ff_shared, 1);
    layer.experts = mlp("_exps", c.n_ff_expert, c.n_experts);
    layer.router = matrix(prefix + "ffn_gate_inp.weight", c.n_experts, c.n_embd);
    layer.shared_gate = matrix(prefix + "ffn_gate_inp_shexp.weight", 1, c.n_embd);
}

uint64_t Model::make_fingerprint() const {
    constexpr uint64_t SAMPLE = 4096;
    const Config &c = config_;
    const int64_t sizes[] = {c.n_heads,       c.n_kv_heads, c.head_dim,   c.n_rot,
                             c.n_key_heads,   c.n_value_heads, c.key_dim, c.conv_width,
                             c.n_experts,     c.n_experts_used};
    uint64_t hash = fnv1a(sizes, sizeof sizes);
    hash = fnv1a(&c.rope_theta, sizeof c.rope_theta, hash);
    hash = fnv1a(&c.eps, sizeof c.eps, hash);
    for (const bool full : c.full_attention)
        hash = fnv1a(full ? "f" : "r", 1, hash);
    for (const auto &[name, tensor] : file_.tensors()) {
        hash = fnv1a(name.data(), name.size(), hash);
        hash = fnv1a(&tensor.dtype, sizeof tensor.dtype, hash);
        hash = fnv1a(tensor.sizes.data(), tensor.sizes.size() * sizeof(int64_t), hash);
        hash = fnv1a(tensor.data, tensor.n_bytes < SAMPLE ? tensor.n_bytes : SAMPLE, hash);
    }
    return hash;
}

} // namespace hotfire::engine
