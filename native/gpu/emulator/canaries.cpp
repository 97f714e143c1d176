// Kernels with one fault each, and a healthy one: the emulator must name exactly that fault.
// All take (const float *x, float *y, int64_t n) and are launched with one block.
#include "device.hpp"

using namespace hotfire::gpu;

#define HOTFIRE_CANARY(name)                                                                       \
    static void canary_##name(const float *x, float *y, int64_t n);                                \
    static const Kernel canary_##name##_listed("canary_" #name, Unpacked<canary_##name>::run);     \
    static void canary_##name([[maybe_unused]] const float *x, [[maybe_unused]] float *y,          \
                              [[maybe_unused]] int64_t n)

HOTFIRE_CANARY(healthy) {
    HOTFIRE_SHARED(float, words, 64);
    const int me = thread_index();
    words[me] = x[me % n];
    barrier();
    const uint64_t votes = ballot(me % 2 == 0);
    const float sum = shuffle_xor(words[63 - me], 1);
    barrier();
    words[me] = sum;
    y[me] = words[me] + static_cast<float>(votes & 3);
}

HOTFIRE_CANARY(global_out_of_bounds) { y[0] = x[n]; }

HOTFIRE_CANARY(global_read_only) { const_cast<float *>(x)[0] = 1; }

HOTFIRE_CANARY(shared_out_of_bounds) {
    HOTFIRE_SHARED(float, words, 64);
    words[thread_index() + 1] = 1;
}

HOTFIRE_CANARY(shared_uninitialised) {
    HOTFIRE_SHARED(float, words, 64);
    y[0] = words[5];
}

HOTFIRE_CANARY(shared_race_write_write) {
    HOTFIRE_SHARED(float, words, 64);
    words[thread_index() / 2] = 1;
}

HOTFIRE_CANARY(shared_race_write_read) {
    HOTFIRE_SHARED(float, words, 64);
    words[thread_index()] = 0;
    barrier();
    if (thread_index() == 0)
        words[0] = 1;
    if (thread_index() == 1)
        y[0] = words[0];
}

HOTFIRE_CANARY(shared_race_read_write) {
    HOTFIRE_SHARED(float, words, 64);
    words[thread_index()] = 1;
    barrier();
    y[thread_index()] = words[63 - thread_index()];
    words[thread_index()] = 2;
}

HOTFIRE_CANARY(misaligned) {
    y[0] = from_bits(load(reinterpret_cast<const Wide *>(x + 1)).x);
}

HOTFIRE_CANARY(barrier_missing) {
    if (thread_index() < 40)
        barrier();
}

HOTFIRE_CANARY(barrier_divergent) {
    if (thread_index() < 40)
        barrier();
    else
        barrier();
}

HOTFIRE_CANARY(wave_divergent) {
    if (thread_index() != 7)
        y[thread_index()] = shuffle_xor(1, 1);
}

HOTFIRE_CANARY(wave_lane_out_of_range) { y[0] = shuffle_xor(1, wave_size()); }
