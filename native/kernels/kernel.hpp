// What every kernel file includes. Such a file is compiled once for each instruction set, with
// HOTFIRE_ISA naming it, for the loops; and once without, for the entry point that checks the
// arguments and picks the loops of the context's instruction set.
//
// The compilations with HOTFIRE_ISA use no std:: code: an inline function of the standard library
// compiled for AVX-512 could otherwise become the copy that every machine runs.
#pragma once

#include "hotfire_kernels.h"
#include "mutant.hpp"
#include "range.hpp"

#ifdef HOTFIRE_ISA

#include "simd.hpp"

#define HOTFIRE_VARIANTS(name, ...)                                                                \
    namespace hotfire::HOTFIRE_ISA {                                                               \
    void name(__VA_ARGS__);                                                                        \
    }

#else

#include "check.hpp"

using namespace hotfire;

#if defined(__x86_64__)
#define HOTFIRE_VARIANTS(name, ...)                                                                \
    namespace hotfire {                                                                            \
    namespace scalar { void name(__VA_ARGS__); }                                                   \
    namespace avx2 { void name(__VA_ARGS__); }                                                     \
    namespace avx512 { void name(__VA_ARGS__); }                                                   \
    static constexpr Variants name(scalar::name, avx2::name, avx512::name);                        \
    }
#else
#define HOTFIRE_VARIANTS(name, ...)                                                                \
    namespace hotfire {                                                                            \
    namespace scalar { void name(__VA_ARGS__); }                                                   \
    static constexpr Variants name(scalar::name);                                                  \
    }
#endif

#endif
