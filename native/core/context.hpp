// What a context holds. It is all the state that the library has.
#pragma once

#include "hotfire.h"
#include "pool.hpp"

struct hotfire_context {
    hotfire_isa isa;
    uint32_t n_threads;
    char error[256];
    std::unique_ptr<hotfire::Pool> pool; // from the first call that is split
};
