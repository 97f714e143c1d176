// The emulator's half of the runtime: threads are fibers, shared arrays are statics.
//
// Kernels are compiled with -fsanitize=thread, which turns each load and store into a call; the
// calls come to memory.cpp, not to a sanitizer. So the kernel's source needs no wrappers.
#pragma once

#include "emulator.h"

#include <math.h>
#include <utility>

#define HOTFIRE_DEVICE [[maybe_unused]] static inline
#define HOTFIRE_NO_UNROLL

namespace hotfire::gpu {

struct alignas(16) [[gnu::may_alias]] Wide {
    uint32_t x, y, z, w;
};

// Where a thread waits is told by the line, so that two barriers are told apart.
int thread_index();
int64_t block_index();
int wave_size();
float shuffle_xor(float value, int mask, int line = __builtin_LINE());
uint64_t ballot(bool value, int line = __builtin_LINE());
void barrier(int line = __builtin_LINE());

// All 16 bytes are loaded, whichever of them are used.
Wide load(const Wide *p);
Wide load_once(const Wide *p);

HOTFIRE_DEVICE float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Multiplying by 2^112 moves the exponent from binary16's bias to binary32's, subnormals included.
HOTFIRE_DEVICE float to_f32(uint16_t half) {
    const uint32_t sign = (half & 0x8000u) << 16, rest = (half & 0x7fffu) << 13;
    if (rest >= 0x0f800000) // infinite or not a number
        return from_bits(sign | rest | 0x7f800000);
    return from_bits(sign | __builtin_bit_cast(uint32_t, from_bits(rest) * 0x1p112f));
}

HOTFIRE_DEVICE int32_t dot4(int32_t a, int32_t b, int32_t c) {
    for (int at = 0; at < 32; at += 8)
        c += static_cast<int8_t>(a >> at) * static_cast<int8_t>(b >> at);
    return c;
}

// Tells the checker of an array that the block shares; every thread does, with the same words.
void share(const char *name, const void *data, uint64_t n_bytes, uint64_t gap);

// Between gaps that belong to nothing, so that a wrong index is not a neighbour's right one.
template <class T, int n> struct Shared {
    static constexpr int GAP = 256;
    alignas(64) unsigned char before[GAP];
    T data[n];
    unsigned char after[GAP];

    [[gnu::no_sanitize("thread")]] T (&opened(const char *name))[n] {
        share(name, data, sizeof data, GAP);
        return data;
    }
};

// A kernel enters the list of kernels by itself. `arguments` are pointers to the arguments.
struct Kernel {
    Kernel(const char *operation, void (*run)(void **arguments));

    const char *operation;
    void (*run)(void **arguments);
    const Kernel *next;
};

template <auto function> struct Unpacked;
template <class... Args, void (*function)(Args...)> struct Unpacked<function> {
    [[gnu::no_sanitize("thread")]] static void run(void **arguments) {
        unpack(arguments, std::index_sequence_for<Args...>());
    }
    template <size_t... i>
    [[gnu::no_sanitize("thread")]] static void unpack(void **arguments, std::index_sequence<i...>) {
        function(*static_cast<Args *>(arguments[i])...);
    }
};

} // namespace hotfire::gpu

#define HOTFIRE_SHARED(type, name, count)                                                          \
    static hotfire::gpu::Shared<type, count> name##_shared;                                        \
    type(&name)[count] = name##_shared.opened(#name)
#define HOTFIRE_ENTRY(op, ...) static void hotfire_##op##_kernel(__VA_ARGS__)
#define HOTFIRE_LAUNCH_RECORD(op, rows)                                                            \
    static const hotfire::gpu::Kernel hotfire_##op##_listed(                                       \
        #op, hotfire::gpu::Unpacked<hotfire_##op##_kernel>::run);                                  \
    extern "C" {                                                                                   \
    HOTFIRE_API extern const hotfire::gpu::Launch hotfire_##op##_launch;                           \
    const hotfire::gpu::Launch hotfire_##op##_launch = {hotfire::gpu::BLOCK_SIZE, rows};           \
    }                                                                                              \
    static_assert(true)
