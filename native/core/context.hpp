// What a context holds. Beside it the library has one text a thread, of calls without a context.
#pragma once

#include "hotfire.h"
#include "pool.hpp"

namespace hotfire {

inline constexpr uint64_t ERROR_SIZE = 256;

// Where a failure is put into words: the context's text, or for NULL the calling thread's.
char *error_text(hotfire_context *context);

} // namespace hotfire

struct hotfire_context {
    hotfire_isa isa;
    uint32_t n_threads;
    char error[hotfire::ERROR_SIZE];
    std::unique_ptr<hotfire::Pool> pool; // from the first call that is split
};
