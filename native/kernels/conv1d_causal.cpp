#include "kernel.hpp"

HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_history_lost,
               "a sequence's first tokens in a call see zeros, not the state");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_chunk_of_4_forgets,
               "a call of 4 tokens does not see the state");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_chunk_of_64_forgets,
               "a call of 64 tokens does not see the state");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_chunk_of_512_forgets,
               "a call of 512 tokens does not see the state");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_short_chunk,
               "a chunk shorter than the state leaves its own tokens at the state's start");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_neighbour_state,
               "sequences past the first read the state of the one before");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_neighbour_tokens,
               "a sequence's first tokens see the tokens that lie before them in the pack");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_stale_state, "has_state is ignored");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_reversed, "taps are applied in reverse");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_state_after_conv,
               "the state keeps what the convolution gave, not what it read");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_state_in_bf16, "the state is rounded to bf16");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_state_of_whole_pack,
               "the state is taken from the pack's last tokens, not from the sequence's");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_empty_sequence_cleared,
               "a sequence without tokens loses its state");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_silu_left_out, "the SiLU is left out");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_reads_past_end, "x is read one element past its end");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_weight_reads_past_end,
               "weight is read one element past its end");
HOTFIRE_MUTANT(conv1d_causal, conv1d_causal_writes_past_end,
               "state is written one element past its end");

HOTFIRE_VARIANTS(conv1d_causal, Range channels, const float *x, const float *weight, const int32_t *seq_start,
                 const int32_t *has_state, float *y, float *state, int64_t n_tokens,
                 int64_t n_seqs, int64_t n_channels, int64_t width)

#ifdef HOTFIRE_ISA

namespace hotfire::HOTFIRE_ISA {
namespace {

// A sequence's columns before and in this call, counted from its first token: those below 0 are the
// state's, or nothing where there is none.
struct Columns {
    const float *x, *state;
    int64_t n_channels, n_kept, n_before = 0; // n_before: tokens of others that lie before x

    const float *at(int64_t t) const {
        if (t >= 0 || (conv1d_causal_neighbour_tokens && t + n_before >= 0))
            return x + t * n_channels;
        return state ? state + (n_kept + t) * n_channels : nullptr;
    }
};

static void conv1d_causal_token(Range channels, const Columns &columns, const float *weight,
                                float *y, int64_t t) {
    const int64_t n_channels = columns.n_channels, n_kept = columns.n_kept;
    for (int64_t c = channels.begin; c < channels.end; c += WIDTH) {
        const int64_t n = channels.end - c;
        Vec total = splat(0);
        for (int64_t j = 0; j <= n_kept; ++j) {
            const float *column = columns.at(t - n_kept + j);
            const int64_t tap = conv1d_causal_reversed ? n_kept - j : j;
            if (column)
                total = fma(load(weight + tap * n_channels + c, n), load(column + c, n), total);
        }
        store(y + c, conv1d_causal_silu_left_out ? total : silu(total), n);
    }
}

// The last columns become the state. In ascending order none is overwritten before it is read.
static void conv1d_causal_keep(Range channels, const Columns &columns, float *state,
                               int64_t n_new) {
    const int64_t n_channels = columns.n_channels, n_kept = columns.n_kept;
    const int64_t n_missing = n_new < n_kept ? n_kept - n_new : 0;
    for (int64_t j = 0; j < n_kept; ++j) {
        const int64_t at = conv1d_causal_short_chunk && n_missing ? (j < n_new ? j : j - n_kept)
                                                                  : n_new - n_kept + j;
        const float *column = columns.at(at);
        for (int64_t c = channels.begin; c < channels.end; ++c) {
            const float value = column ? column[c] : 0;
            state[j * n_channels + c] =
                conv1d_causal_state_in_bf16 ? from_bf16(to_bf16(value)) : value;
        }
    }
}

static void conv1d_causal_sequence(Range channels, const float *x, const float *weight, const float *old, float *y,
                                   float *state, int64_t n_new, int64_t n_channels, int64_t n_kept,
                                   int64_t n_before, int64_t n_after) {
    const Columns columns{x, conv1d_causal_history_lost ? nullptr : old, n_channels, n_kept,
                          n_before};
    for (int64_t t = 0; t < n_new; ++t)
        conv1d_causal_token(channels, columns, weight, y + t * n_channels, t);
    const int64_t shift = conv1d_causal_state_of_whole_pack ? n_after * n_channels : 0;
    const float *kept = conv1d_causal_state_after_conv ? y : x + shift;
    conv1d_causal_keep(channels, {kept, old, n_channels, n_kept}, state, n_new);
}

} // namespace

void conv1d_causal(Range channels, const float *x, const float *weight, const int32_t *seq_start,
                   const int32_t *has_state, float *y, float *state, int64_t n_tokens,
                   int64_t n_seqs, int64_t n_channels, int64_t width) {
    const int64_t n_kept = width - 1, state_size = n_kept * n_channels;
    if (conv1d_causal_reads_past_end)
        touch(x + n_tokens * n_channels);
    if (conv1d_causal_weight_reads_past_end)
        touch(weight + width * n_channels);
    if (conv1d_causal_writes_past_end)
        spoil(state + n_seqs * state_size);
    for (int64_t s = 0; s < n_seqs; ++s) {
        const int64_t first = seq_start[s], n_new = seq_start[s + 1] - first;
        if (n_new == 0 && !conv1d_causal_empty_sequence_cleared)
            continue;
        float *mine = state + s * state_size;
        const float *read = conv1d_causal_neighbour_state && s > 0 ? mine - state_size : mine;
        const bool forgets = (conv1d_causal_chunk_of_4_forgets && n_new == 4) ||
                             (conv1d_causal_chunk_of_64_forgets && n_new == 64) ||
                             (conv1d_causal_chunk_of_512_forgets && n_new == 512);
        const bool fresh = (!has_state[s] && !conv1d_causal_stale_state) || forgets;
        conv1d_causal_sequence(channels, x + first * n_channels, weight,
                               fresh || n_new == 0 ? nullptr : read, y + first * n_channels, mine,
                               n_new, n_channels, n_kept, first, n_tokens - first - n_new);
    }
}

} // namespace hotfire::HOTFIRE_ISA

#else

extern "C" hotfire_status hotfire_conv1d_causal(const hotfire_exec *exec, const float *x,
                                                const float *weight, const int32_t *seq_start,
                                                const int32_t *has_state, float *y, float *state,
                                                int64_t n_tokens, int64_t n_seqs,
                                                int64_t n_channels, int64_t width) {
    return Check(exec)
        .within("n_tokens", n_tokens, 0, INT32_MAX)
        .within("n_seqs", n_seqs, 1, INT32_MAX)
        .size("n_channels", n_channels)
        .within("width", width, 1, INT32_MAX)
        .input("x", x, {n_tokens, n_channels})
        .input("weight", weight, {width, n_channels})
        .input("seq_start", seq_start, {n_seqs + 1})
        .input("has_state", has_state, {n_seqs})
        .output("y", y, {n_tokens, n_channels})
        .output("state", state, {n_seqs, width - 1, n_channels})
        .starts("seq_start", seq_start, n_seqs, n_tokens)
        .run({{n_channels}, {n_tokens, 4, width}, 16}, conv1d_causal, x, weight, seq_start, has_state, y, state, n_tokens, n_seqs,
             n_channels, width);
}

#endif
