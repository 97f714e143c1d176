// Sums over a block: lanes by shuffles, then waves through shared memory.
//
// Define HOTFIRE_OPERATION before this is included: the faults below are mutants of that operation.
#pragma once

#include "device.hpp"

#define HOTFIRE_FAULT_OF(op, name) op##_##name
#define HOTFIRE_FAULT_EXPANDED(op, name) HOTFIRE_FAULT_OF(op, name)
#define HOTFIRE_FAULT(name) HOTFIRE_FAULT_EXPANDED(HOTFIRE_OPERATION, name)
#define HOTFIRE_MUTANT_EXPANDED(op, name, doc) HOTFIRE_MUTANT(op, name, doc)
#define HOTFIRE_REDUCTION_MUTANT(name, doc)                                                        \
    HOTFIRE_MUTANT_EXPANDED(HOTFIRE_OPERATION, HOTFIRE_FAULT(name), doc)

HOTFIRE_REDUCTION_MUTANT(dropped_barrier, "no barrier before the sums of other waves are read");
HOTFIRE_REDUCTION_MUTANT(shared_index_off_by_one, "a wave writes the next wave's shared word");
HOTFIRE_REDUCTION_MUTANT(shared_left_unset, "the last wave's shared word is never written");
HOTFIRE_REDUCTION_MUTANT(assumes_wave_64, "lanes are added as if a wave had 64");
HOTFIRE_REDUCTION_MUTANT(assumes_wave_32, "lanes are added as if a wave had 32");

namespace hotfire::gpu {

HOTFIRE_DEVICE float wave_sum(float value) {
    const int width = HOTFIRE_FAULT(assumes_wave_64)   ? 64
                      : HOTFIRE_FAULT(assumes_wave_32) ? 32
                                                       : wave_size();
    for (int mask = width / 2; mask > 0; mask /= 2)
        value += shuffle_xor(value, mask);
    return value;
}

// Leaves each wave's sum of values[i] in partial[i * MAX_WAVES + wave], for every thread to read.
template <int N> HOTFIRE_DEVICE void share_sums(const float (&values)[N], float *partial) {
    const int wave = thread_index() / wave_size(), n_waves = BLOCK_SIZE / wave_size();
    const bool unset = HOTFIRE_FAULT(shared_left_unset) && wave == n_waves - 1;
    for (int i = 0; i < N; ++i) {
        const float sum = wave_sum(values[i]);
        if (thread_index() % wave_size() == 0 && !unset)
            partial[i * MAX_WAVES + wave + HOTFIRE_FAULT(shared_index_off_by_one)] = sum;
    }
    if (!HOTFIRE_FAULT(dropped_barrier))
        barrier();
}

// The block's sum of value i, from what share_sums left, waves in order.
HOTFIRE_DEVICE float block_sum(const float *partial, int i) {
    float sum = 0;
    for (int wave = 0; wave < BLOCK_SIZE / wave_size(); ++wave)
        sum += partial[i * MAX_WAVES + wave];
    return sum;
}

} // namespace hotfire::gpu
