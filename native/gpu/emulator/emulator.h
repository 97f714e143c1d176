/*
 * emulator.h: runs a GPU kernel on the CPU and reports what a GPU would let pass.
 *
 * Each thread of a block is a fiber; blocks run one after another. Reported are:
 *
 *   global_out_of_bounds     an access outside every buffer
 *   global_read_only         a write to an input
 *   shared_out_of_bounds     an access next to a shared array
 *   shared_uninitialised     a read of shared memory that this block has not written
 *   shared_race              two threads touch a shared byte, one writes, no barrier between
 *   misaligned               a load or store at an address that is no multiple of its width
 *   barrier_missing          threads wait at a barrier that others do not reach
 *   barrier_divergent        threads of a block wait at different barriers
 *   wave_divergent           lanes of a wave are not all at the same shuffle or ballot
 *   wave_lane_out_of_range   a shuffle asks for a lane that the wave does not have
 *
 * A launch ends at its first report. The state is the process's; one thread uses it at a time.
 */
#ifndef HOTFIRE_EMULATOR_H
#define HOTFIRE_EMULATOR_H

#include "hotfire.h"

#ifdef __cplusplus
extern "C" {
#endif

/*! hotfire_emulator_kernel() : the operation of kernel `index`, NULL past the last. */
HOTFIRE_API const char *hotfire_emulator_kernel(uint64_t index);

/*! hotfire_emulator_configure() : sets the width of a wave, 32 or 64, and the order in which
 *  threads run: in turn for seed 0, else shuffled. 0 if the width is another. */
HOTFIRE_API int32_t hotfire_emulator_configure(uint32_t wave_size, uint64_t seed);

/*! hotfire_emulator_buffer() : adds a buffer of the next launch; its name must outlive that. */
HOTFIRE_API void hotfire_emulator_buffer(const char *name, void *data, uint64_t n_bytes,
                                         int32_t writable);

/*! hotfire_emulator_launch() : runs a kernel on the buffers added, and forgets them. `arguments`
 *  points to each argument in turn. 1 if nothing was wrong, 0 if there is a report, -1 if there
 *  is no such kernel or the block has no or more than 1024 threads or a part of a wave. */
HOTFIRE_API int32_t hotfire_emulator_launch(const char *operation, uint32_t n_blocks,
                                            uint32_t block_size, void **arguments);

/*! hotfire_emulator_rule() : which of the rules above the last launch broke, "" for none. */
HOTFIRE_API const char *hotfire_emulator_rule(void);

/*! hotfire_emulator_message() : in words: kernel, block, thread, what was done to what. */
HOTFIRE_API const char *hotfire_emulator_message(void);

/*! hotfire_emulator_address() : the instruction that was reported, from the start of the library;
 *  0 where a wait was reported, whose line is in the message. */
HOTFIRE_API uint64_t hotfire_emulator_address(void);

#ifdef __cplusplus
}
#endif

#endif
