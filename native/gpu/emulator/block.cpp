// Runs the threads of a block in turn, each until it waits, and lets go on those whose wait is over.
#include "device.hpp"
#include "machine.hpp"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utility>

namespace hotfire::gpu {

Machine machine;

static const char *name(Wait wait) {
    switch (wait) {
    case Wait::BARRIER: return "waits at the barrier";
    case Wait::SHUFFLE: return "waits at the shuffle";
    case Wait::BALLOT: return "waits at the ballot";
    case Wait::ENDED: return "has ended";
    case Wait::NONE: break;
    }
    return "runs";
}

static void vdescribe(const char *rule, int thread, const char *format, va_list arguments) {
    char words[320];
    vsnprintf(words, sizeof words, format, arguments);
    machine.rule = rule;
    snprintf(machine.message, sizeof machine.message,
             "kernel %s, wave of %d, block %lld, thread %d %s", machine.kernel, machine.wave_size,
             static_cast<long long>(machine.block), thread, words);
}

void describe(const char *rule, int thread, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vdescribe(rule, thread, format, arguments);
    va_end(arguments);
}

void report(const char *rule, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vdescribe(rule, machine.current, format, arguments);
    va_end(arguments);
    fibers.abandon();
}

int thread_index() { return machine.current; }
int64_t block_index() { return machine.block; }
int wave_size() { return machine.wave_size; }

static void wait(Wait what, int line) {
    machine.thread().wait = what;
    machine.thread().line = line;
    fibers.yield();
}

void barrier(int line) { wait(Wait::BARRIER, line); }

float shuffle_xor(float value, int mask, int line) {
    const int lane = machine.current % machine.wave_size;
    machine.address = 0;
    if ((lane ^ mask) >= machine.wave_size)
        report("wave_lane_out_of_range", "asks for lane %d in the shuffle of line %d", lane ^ mask,
               line);
    machine.thread().value = __builtin_bit_cast(uint32_t, value);
    machine.thread().mask = mask;
    wait(Wait::SHUFFLE, line);
    return __builtin_bit_cast(float, static_cast<uint32_t>(machine.thread().result));
}

uint64_t ballot(bool value, int line) {
    machine.thread().value = value;
    wait(Wait::BALLOT, line);
    return machine.thread().result;
}

// Threads that a pass has run are at a wait or at their end, so whoever differs now differs for good.
static const Thread *other(const Thread *first, int n) {
    for (const Thread *thread = first; thread != first + n; ++thread)
        if (thread->wait != first->wait || thread->line != first->line)
            return thread;
    return nullptr;
}

static bool describe_difference(const char *rule, const Thread *a, const Thread *b) {
    if (a->wait == Wait::ENDED)
        std::swap(a, b);
    machine.address = 0;
    const int first = static_cast<int>(a - machine.threads);
    const int second = static_cast<int>(b - machine.threads);
    if (b->wait == Wait::ENDED)
        describe(rule, first, "%s of line %d, thread %d has ended", name(a->wait), a->line, second);
    else
        describe(rule, first, "%s of line %d, thread %d %s of line %d", name(a->wait), a->line,
                 second, name(b->wait), b->line);
    return false;
}

static void exchange(Thread *lanes) {
    uint64_t votes = 0;
    for (int i = 0; i < machine.wave_size; ++i)
        votes |= static_cast<uint64_t>(lanes[i].value & 1) << i;
    for (int i = 0; i < machine.wave_size; ++i) {
        Thread &lane = lanes[i];
        lane.result = lane.wait == Wait::BALLOT ? votes : lanes[i ^ lane.mask].value;
    }
    for (int i = 0; i < machine.wave_size; ++i)
        lanes[i].wait = Wait::NONE;
}

// Lets waves go on whose lanes have all arrived; false if some never will.
static bool release_waves(bool &any) {
    for (int at = 0; at < machine.n_threads; at += machine.wave_size) {
        Thread *lanes = machine.threads + at;
        const Thread *odd = other(lanes, machine.wave_size);
        const auto in_wave = [](Wait wait) { return wait == Wait::SHUFFLE || wait == Wait::BALLOT; };
        if (odd && (in_wave(lanes->wait) || in_wave(odd->wait)))
            return describe_difference("wave_divergent", lanes, odd);
        if (!odd && in_wave(lanes->wait)) {
            exchange(lanes);
            any = true;
        }
    }
    return true;
}

static bool release_barrier() {
    const Thread *odd = other(machine.threads, machine.n_threads);
    if (odd) {
        const bool ended = odd->wait == Wait::ENDED || machine.threads->wait == Wait::ENDED;
        return describe_difference(ended ? "barrier_missing" : "barrier_divergent",
                                   machine.threads, odd);
    }
    for (int i = 0; i < machine.n_threads; ++i) {
        machine.threads[i].wait = Wait::NONE;
        machine.threads[i].epoch++;
    }
    return true;
}

// SplitMix64 (Steele, Lea and Flood 2014).
static uint64_t next_random(uint64_t &state) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void run_thread(int) { machine.run(machine.arguments); }

bool run_block() {
    int order[Fibers::MAX];
    uint64_t random = machine.seed + machine.n_blocks_run++;
    for (int i = 0; i < machine.n_threads; ++i) {
        machine.threads[i] = {};
        order[i] = i;
    }
    for (;;) {
        for (int i = machine.n_threads - 1; machine.seed && i > 0; --i)
            std::swap(order[i], order[next_random(random) % static_cast<uint64_t>(i + 1)]);
        bool all_ended = true;
        for (int i = 0; i < machine.n_threads; ++i) {
            machine.current = order[i];
            if (machine.thread().wait == Wait::NONE && fibers.resume(order[i], run_thread))
                machine.thread().wait = Wait::ENDED;
            if (*machine.rule)
                return false;
            all_ended &= machine.threads[order[i]].wait == Wait::ENDED;
        }
        if (all_ended)
            return true;
        bool any = false;
        if (!release_waves(any) || (!any && !release_barrier()))
            return false;
    }
}

} // namespace hotfire::gpu
