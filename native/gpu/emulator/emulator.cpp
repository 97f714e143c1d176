// The emulator's C interface: the list of kernels, and a launch.
#include "emulator.h"
#include "device.hpp"
#include "machine.hpp"

#include <string.h>

namespace hotfire::gpu {

// Set before any constructor runs, so that the order of the object files does not matter.
static constinit const Kernel *first = nullptr;

Kernel::Kernel(const char *operation, void (*run)(void **arguments))
    : operation(operation), run(run), next(first) {
    first = this;
}

static const Kernel *find(const char *operation) {
    for (const Kernel *kernel = first; kernel; kernel = kernel->next)
        if (strcmp(kernel->operation, operation) == 0)
            return kernel;
    return nullptr;
}

} // namespace hotfire::gpu

using namespace hotfire::gpu;

const char *hotfire_emulator_kernel(uint64_t index) {
    for (const Kernel *kernel = first; kernel; kernel = kernel->next)
        if (index-- == 0)
            return kernel->operation;
    return nullptr;
}

int32_t hotfire_emulator_configure(uint32_t wave_size, uint64_t seed) {
    if (wave_size != 32 && wave_size != 64)
        return 0;
    machine.wave_size = static_cast<int>(wave_size);
    machine.seed = seed;
    return 1;
}

int32_t hotfire_emulator_launch(const char *operation, uint32_t n_blocks, uint32_t block_size,
                                void **arguments) {
    const Kernel *kernel = find(operation);
    const bool is_whole = block_size % static_cast<uint32_t>(machine.wave_size) == 0;
    if (!kernel || !block_size || block_size > Fibers::MAX || !is_whole) {
        forget_memory();
        return -1;
    }
    machine.kernel = operation;
    machine.run = kernel->run;
    machine.arguments = arguments;
    machine.n_threads = static_cast<int>(block_size);
    machine.n_blocks_run = 0; // so that the seed alone determines the order of threads
    machine.rule = "";
    machine.address = 0;
    bool healthy = true;
    for (machine.block = 0; healthy && machine.block < n_blocks; ++machine.block)
        healthy = run_block();
    machine.kernel = nullptr;
    if (!healthy)
        fibers.forget();
    forget_memory();
    return healthy;
}

const char *hotfire_emulator_rule() { return machine.rule; }
const char *hotfire_emulator_message() { return *machine.rule ? machine.message : ""; }
uint64_t hotfire_emulator_address() { return *machine.rule ? machine.address : 0; }
