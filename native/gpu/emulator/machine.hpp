// What the emulator's parts share: the launch in progress, its threads, and how to report.
#pragma once

#include "fibers.hpp"

#include <stdint.h>

namespace hotfire::gpu {

enum class Wait { NONE, BARRIER, SHUFFLE, BALLOT, ENDED };

struct Thread {
    Wait wait = Wait::NONE;
    int line = 0;       // where it waits
    int epoch = 0;      // barriers that it has passed
    uint32_t value = 0; // what it gave to a shuffle or ballot
    int mask = 0;
    uint64_t result = 0;
};

struct Machine {
    int wave_size = 32;
    uint64_t seed = 0;

    const char *kernel = nullptr; // NULL while nothing runs
    void (*run)(void **arguments) = nullptr;
    void **arguments = nullptr;
    int64_t block = 0;
    int n_threads = 0;
    int current = 0;
    Thread threads[Fibers::MAX];
    uint64_t n_blocks_run = 0; // a number for each block of each launch

    const char *rule = "";
    char message[512] = "";
    uint64_t address = 0;

    Thread &thread() { return threads[current]; }
};

extern Machine machine;

// Runs one block to its end or first report; false if there was one.
bool run_block();

// Describes what a thread did and, within a fiber, ends the launch.
[[gnu::format(printf, 3, 4)]] void describe(const char *rule, int thread, const char *format, ...);
[[noreturn, gnu::format(printf, 2, 3)]] void report(const char *rule, const char *format, ...);

// Forgets buffers and shared arrays.
void forget_memory();

} // namespace hotfire::gpu
