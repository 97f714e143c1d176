// The items of a call that one part of it computes: rows, heads, channels, as its kernel says.
#pragma once

#include <cstdint>

namespace hotfire {

struct Range {
    int64_t begin, end;
};

} // namespace hotfire
