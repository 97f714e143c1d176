// Checks every load and store of a kernel. The compiler, told -fsanitize=thread, calls the functions
// at the end of this file before each; the real sanitizer is not linked.
#include "device.hpp"
#include "emulator.h"
#include "machine.hpp"

#include <string.h>
#include <vector>

extern "C" {
// The library's own image, from the linker.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
}

namespace hotfire::gpu {

namespace {

struct Buffer {
    const char *name;
    uintptr_t begin;
    uint64_t n_bytes;
    bool writable;
};

// Who touched a shared byte last, in which epoch.
struct Byte {
    uint64_t block = 0; // n_blocks_run when it was written; else it is not initialised
    int writer = -1, writer_epoch = -1;
    int reader = -1, other_reader = -1, reader_epoch = -1;
};

struct Array {
    const char *name;
    uintptr_t begin;
    uint64_t n_bytes, gap;
    std::vector<Byte> bytes;
};

struct Access {
    uintptr_t at;
    uint64_t n_bytes;
    bool writes;

    const char *verb() const { return writes ? "writes" : "reads"; }
    uintptr_t end() const { return at + n_bytes; }
    int size() const { return static_cast<int>(n_bytes); }
};

std::vector<Buffer> buffers;
std::vector<Array> arrays;

bool inside(const Access &access, uintptr_t begin, uint64_t n_bytes) {
    return access.at >= begin && access.end() <= begin + n_bytes;
}

// "4 bytes past the end of x", from the first byte touched.
struct Offset {
    uint64_t distance;
    const char *words;
};

Offset offset(const Access &access, uintptr_t begin, uint64_t n_bytes) {
    if (access.at < begin)
        return {begin - access.at, "before the start of"};
    return {access.end() - begin - n_bytes, "past the end of"};
}

[[noreturn]] void race(const Access &access, const Array &array, uint64_t i, const char *did,
                       int with) {
    report("shared_race", "%s %d bytes at byte %llu of %s, which thread %d %s since the last barrier",
           access.verb(), access.size(), static_cast<unsigned long long>(i), array.name, with, did);
}

void touch_shared(const Access &access, Array &array, uint64_t i) {
    Byte &byte = array.bytes[i];
    const int me = machine.current, epoch = machine.thread().epoch;
    const bool is_set = byte.block == machine.n_blocks_run;
    if (!is_set && !access.writes)
        report("shared_uninitialised",
               "reads %d bytes at byte %llu of %s, which no thread of this block has written",
               access.size(), static_cast<unsigned long long>(i), array.name);
    if (!is_set)
        byte = {};
    byte.block = machine.n_blocks_run;
    if (byte.writer_epoch == epoch && byte.writer != me)
        race(access, array, i, "wrote", byte.writer);
    if (!access.writes) {
        if (byte.reader_epoch != epoch) {
            byte.reader = me;
            byte.other_reader = -1;
        } else if (byte.reader != me) {
            byte.other_reader = me;
        }
        byte.reader_epoch = epoch;
        return;
    }
    const int reader = byte.reader == me ? byte.other_reader : byte.reader;
    if (byte.reader_epoch == epoch && reader >= 0)
        race(access, array, i, "read", reader);
    byte.writer = me;
    byte.writer_epoch = epoch;
}

bool check_shared(const Access &access) {
    for (Array &array : arrays) {
        if (access.at < array.begin - array.gap ||
            access.at >= array.begin + array.n_bytes + array.gap)
            continue;
        if (!inside(access, array.begin, array.n_bytes)) {
            const Offset off = offset(access, array.begin, array.n_bytes);
            report("shared_out_of_bounds", "%s %d bytes, %llu %s %s", access.verb(), access.size(),
                   static_cast<unsigned long long>(off.distance), off.words, array.name);
        }
        for (uint64_t i = access.at - array.begin; i < access.end() - array.begin; ++i)
            touch_shared(access, array, i);
        return true;
    }
    return false;
}

bool check_buffers(const Access &access) {
    const Buffer *read_only = nullptr;
    for (const Buffer &buffer : buffers) {
        if (!inside(access, buffer.begin, buffer.n_bytes))
            continue;
        if (buffer.writable || !access.writes)
            return true;
        read_only = &buffer;
    }
    if (read_only)
        report("global_read_only", "writes %d bytes to the input %s, at byte %llu", access.size(),
               read_only->name, static_cast<unsigned long long>(access.at - read_only->begin));
    return false;
}

[[noreturn]] void report_outside(const Access &access) {
    const Buffer *nearest = nullptr;
    Offset least = {~0ull, ""};
    for (const Buffer &buffer : buffers) {
        const Offset off = offset(access, buffer.begin, buffer.n_bytes);
        if (off.distance < least.distance) {
            least = off;
            nearest = &buffer;
        }
    }
    if (!nearest)
        report("global_out_of_bounds", "%s %d bytes, and there is no buffer", access.verb(),
               access.size());
    report("global_out_of_bounds", "%s %d bytes, %llu %s %s", access.verb(), access.size(),
           static_cast<unsigned long long>(least.distance), least.words, nearest->name);
}

void check(const void *address, uint64_t n_bytes, bool writes, bool aligned, const void *from) {
    if (!machine.kernel || fibers.holds(address))
        return;
    const Access access = {reinterpret_cast<uintptr_t>(address), n_bytes, writes};
    machine.address = reinterpret_cast<uintptr_t>(from) - reinterpret_cast<uintptr_t>(&__ehdr_start);
    if (aligned && access.at % n_bytes)
        report("misaligned", "%s %d bytes at an address that is no multiple of %d", access.verb(),
               access.size(), access.size());
    if (check_shared(access) || check_buffers(access))
        return;
    const uintptr_t image = reinterpret_cast<uintptr_t>(&__ehdr_start);
    if (writes || !inside(access, image, static_cast<uint64_t>(&_end - &__ehdr_start)))
        report_outside(access);
}

} // namespace

void share(const char *name, const void *data, uint64_t n_bytes, uint64_t gap) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
    for (const Array &array : arrays)
        if (array.begin == begin)
            return;
    arrays.push_back({name, begin, n_bytes, gap, std::vector<Byte>(n_bytes)});
}

Wide load(const Wide *p) {
    check(p, sizeof *p, false, true, __builtin_return_address(0));
    return *p;
}

Wide load_once(const Wide *p) {
    check(p, sizeof *p, false, true, __builtin_return_address(0));
    return *p;
}

void forget_memory() {
    buffers.clear();
    arrays.clear();
}

} // namespace hotfire::gpu

using namespace hotfire::gpu;

void hotfire_emulator_buffer(const char *name, void *data, uint64_t n_bytes, int32_t writable) {
    buffers.push_back({name, reinterpret_cast<uintptr_t>(data), n_bytes, writable != 0});
}

#define HOTFIRE_ACCESS(n)                                                                          \
    void __tsan_read##n(void *p) { check(p, n, false, true, __builtin_return_address(0)); }        \
    void __tsan_write##n(void *p) { check(p, n, true, true, __builtin_return_address(0)); }        \
    void __tsan_unaligned_read##n(void *p) {                                                       \
        check(p, n, false, false, __builtin_return_address(0));                                    \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p) {                                                      \
        check(p, n, true, false, __builtin_return_address(0));                                     \
    }

extern "C" {
HOTFIRE_ACCESS(1)
HOTFIRE_ACCESS(2)
HOTFIRE_ACCESS(4)
HOTFIRE_ACCESS(8)
HOTFIRE_ACCESS(16)
void __tsan_read_range(void *p, uint64_t n) {
    check(p, n, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void *p, uint64_t n) {
    check(p, n, true, false, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
}
