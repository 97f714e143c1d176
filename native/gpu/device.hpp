// The thin runtime: all that a kernel may ask of a device. It is the one file that knows vendors;
// a kernel's source is the same for HIP, for CUDA and for the emulator.
//
//     int thread_index()            within the block, of BLOCK_SIZE threads
//     int64_t block_index()         within the grid
//     int wave_size()               32 or 64; a constant, but for the emulator
//     float shuffle_xor(f, mask)    f of the lane whose number differs in these bits; every lane
//                                   of the wave takes part
//     uint64_t ballot(b)            bit i is lane i's b; every lane of the wave takes part
//     void barrier()                every thread of the block arrives before one goes on
//     float from_bits(u)            the f32 of these bits
//     float to_f32(h)               from binary16, exact
//     int32_t dot4(a, b, c)         c + the products of four signed bytes each, exact
//     Wide, load(const Wide *)      16 aligned bytes, as four words x y z w
//     load_once(const Wide *)       the same of an input that no thread reads again: it is not
//                                   kept in the near cache, nor seen to change
//
//     HOTFIRE_SHARED(float, name, n);     an array that the block shares, not initialised
//     HOTFIRE_NO_UNROLL                   before a loop whose body is wide enough by itself
//     HOTFIRE_KERNEL(op, rows, ...) {}    the kernel of an operation: its arguments are those of
//                                         the C function, one block computes that many rows
//
// A kernel leaves two symbols in its code object: hotfire_<op>_kernel, and hotfire_<op>_launch,
// which says with how many threads it is launched and how many rows a block takes.
#pragma once

#include "hotfire_kernels.h"
#include "mutant.hpp"

namespace hotfire::gpu {

struct Launch {
    uint32_t block_size;     // threads a block
    uint32_t rows_per_block; // of the operation's axis of independent rows
};

static constexpr int BLOCK_SIZE = 256;
static constexpr int MAX_WAVES = BLOCK_SIZE / 32;

// Whether a kernel takes what the C function takes, less the hotfire_exec.
template <class Function, class Kernel> inline constexpr bool takes_the_same = false;
template <class... Args>
inline constexpr bool
    takes_the_same<hotfire_status(const hotfire_exec *, Args...), void(Args...)> = true;

} // namespace hotfire::gpu

#define HOTFIRE_KERNEL(op, rows, ...)                                                              \
    HOTFIRE_ENTRY(op, __VA_ARGS__);                                                                \
    static_assert(hotfire::gpu::takes_the_same<decltype(hotfire_##op),                             \
                                               decltype(hotfire_##op##_kernel)>,                   \
                  "the kernel's arguments differ from those of hotfire_" #op "()");                \
    HOTFIRE_LAUNCH_RECORD(op, rows);                                                               \
    HOTFIRE_ENTRY(op, __VA_ARGS__)

#if defined(__CUDACC__) || defined(__HIP__)

#ifdef __HIP__
#include <hip/hip_runtime.h>
#else
#include <cuda_fp16.h>
#endif

#define HOTFIRE_DEVICE static __device__ __forceinline__
#define HOTFIRE_NO_UNROLL _Pragma("unroll 1")
#define HOTFIRE_SHARED(type, name, count) __shared__ type name[count]
#define HOTFIRE_ENTRY(op, ...)                                                                     \
    extern "C" __global__ void __launch_bounds__(hotfire::gpu::BLOCK_SIZE)                         \
        hotfire_##op##_kernel(__VA_ARGS__)
#define HOTFIRE_LAUNCH_RECORD(op, rows)                                                            \
    extern "C" {                                                                                   \
    __constant__ __attribute__((used)) hotfire::gpu::Launch hotfire_##op##_launch = {              \
        hotfire::gpu::BLOCK_SIZE, rows};                                                           \
    }                                                                                              \
    static_assert(true)

namespace hotfire::gpu {

using Wide = uint4;

HOTFIRE_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
HOTFIRE_DEVICE int64_t block_index() { return blockIdx.x; }
HOTFIRE_DEVICE void barrier() { __syncthreads(); }
HOTFIRE_DEVICE float from_bits(uint32_t bits) { return __uint_as_float(bits); }
HOTFIRE_DEVICE Wide load(const Wide *p) { return *p; }

#ifdef __HIP__

HOTFIRE_DEVICE constexpr int wave_size() { return __AMDGCN_WAVEFRONT_SIZE; }
HOTFIRE_DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor(value, mask); }
HOTFIRE_DEVICE uint64_t ballot(bool value) { return __ballot(value); }

HOTFIRE_DEVICE Wide load_once(const Wide *p) {
    const uint32_t *word = reinterpret_cast<const uint32_t *>(p);
    return {__builtin_nontemporal_load(word), __builtin_nontemporal_load(word + 1),
            __builtin_nontemporal_load(word + 2), __builtin_nontemporal_load(word + 3)};
}

HOTFIRE_DEVICE float to_f32(uint16_t half) {
    return static_cast<float>(__builtin_bit_cast(_Float16, half));
}

HOTFIRE_DEVICE int32_t dot4(int32_t a, int32_t b, int32_t c) {
#if defined(__gfx906__)
    return __builtin_amdgcn_sdot4(a, b, c, false);
#elif defined(__gfx1100__)
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#else
    for (int at = 0; at < 32; at += 8)
        c += static_cast<int8_t>(a >> at) * static_cast<int8_t>(b >> at);
    return c;
#endif
}

#else

HOTFIRE_DEVICE constexpr int wave_size() { return 32; }
HOTFIRE_DEVICE float shuffle_xor(float value, int mask) {
    return __shfl_xor_sync(0xffffffff, value, mask);
}
HOTFIRE_DEVICE uint64_t ballot(bool value) { return __ballot_sync(0xffffffff, value); }

HOTFIRE_DEVICE Wide load_once(const Wide *p) {
    Wide v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p));
    return v;
}

HOTFIRE_DEVICE float to_f32(uint16_t half) { return __half2float(__ushort_as_half(half)); }
HOTFIRE_DEVICE int32_t dot4(int32_t a, int32_t b, int32_t c) { return __dp4a(a, b, c); }

#endif

} // namespace hotfire::gpu

#else

#include "emulator/device.hpp"

#endif
