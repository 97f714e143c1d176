// How the engine's inside says that something went wrong; the C interface turns it into a status.
#pragma once

#include "hotfire.h"

#include <cstdarg>
#include <cstdio>

namespace hotfire::engine {

// Its text lies in it, so that "no memory is left" can be said when none is.
struct Failure {
    hotfire_status status;
    char text[256];
};

[[noreturn, gnu::format(printf, 2, 3)]] inline void fail(hotfire_status status, const char *format,
                                                         ...) {
    Failure failure{status, ""};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(failure.text, sizeof failure.text, format, arguments);
    va_end(arguments);
    throw failure;
}

} // namespace hotfire::engine
