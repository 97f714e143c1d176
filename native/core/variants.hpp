// One kernel, compiled for each instruction set.
#pragma once

#include "hotfire.h"
#include "range.hpp"

namespace hotfire {

template <class... Args> struct Variants {
    using Function = void(Args...);

#if defined(__x86_64__)
    constexpr Variants(Function *scalar, Function *avx2, Function *avx512)
        : scalar(scalar), avx2(avx2), avx512(avx512) {}

    Function *of(hotfire_isa isa) const {
        return isa == HOTFIRE_ISA_AVX512 ? avx512 : isa == HOTFIRE_ISA_AVX2 ? avx2 : scalar;
    }

    Function *scalar, *avx2, *avx512;
#else
    constexpr Variants(Function *scalar) : scalar(scalar) {}

    Function *of(hotfire_isa) const { return scalar; }

    Function *scalar;
#endif
};

} // namespace hotfire
