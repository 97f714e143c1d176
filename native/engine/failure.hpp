// How the engine's inside says that something went wrong; the C interface turns it into a status.
#pragma once

#include "hotfire.h"

#include <cstdarg>
#include <cstdio>
#include <string>

namespace hotfire::engine {

struct Failure {
    hotfire_status status;
    std::string text;
};

[[noreturn, gnu::format(printf, 2, 3)]] inline void fail(hotfire_status status, const char *format,
                                                         ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    throw Failure{status, text};
}

} // namespace hotfire::engine
