// The table is generated from the headers; its numbers are computed here, by this compiler.
#include "hotfire_kernels.h"

#include <cstddef>

static const hotfire_layout_entry entries[] = {
#ifdef HOTFIRE_LAYOUT_INC
#include HOTFIRE_LAYOUT_INC
#endif
    {nullptr, nullptr, 0, 0, 0, 0}, // ends the table, and keeps an empty one valid
};

extern "C" const hotfire_layout_entry *hotfire_layout(uint64_t index) {
    return index < sizeof entries / sizeof *entries - 1 ? &entries[index] : nullptr;
}
