// What a context holds. It is all the state that the library has.
#pragma once

#include "hotfire.h"

struct hotfire_context {
    hotfire_isa isa;
    char error[256];
};
