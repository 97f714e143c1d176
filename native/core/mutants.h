/*
 * mutants.h: what the library hotfire_mutants exports on top of hotfire.h.
 *
 * A mutant is a planted bug in one operation's kernels. All are off until one is selected, for the
 * whole process: select while no kernel runs. No library that computes for others has these
 * functions; hotfire_emulator, which runs kernels to check them, has.
 */
#ifndef HOTFIRE_MUTANTS_H
#define HOTFIRE_MUTANTS_H

#include "hotfire.h"

#ifdef __cplusplus
extern "C" {
#endif

/*! hotfire_mutant_name() : the name of mutant `index`, NULL past the last. Each name comes once. */
HOTFIRE_API const char *hotfire_mutant_name(uint64_t index);

/*! hotfire_mutant_operation() : the operation that it breaks, NULL past the last. */
HOTFIRE_API const char *hotfire_mutant_operation(uint64_t index);

/*! hotfire_mutant_doc() : what is wrong, in one line, NULL past the last. */
HOTFIRE_API const char *hotfire_mutant_doc(uint64_t index);

/*! hotfire_mutant_select() : turns on the mutant of that name in every instruction set, and all
 *  others off. NULL or "" turns all off. 0 if there is no such mutant, and then all are off. */
HOTFIRE_API int32_t hotfire_mutant_select(const char *name);

#ifdef __cplusplus
}
#endif

#endif
