#include "hotfire.h"

extern "C" uint32_t hotfire_abi_version(void) { return HOTFIRE_ABI_VERSION; }

extern "C" const char *hotfire_status_name(hotfire_status status) {
    switch (status) {
    case HOTFIRE_STATUS_OK: return "ok";
    case HOTFIRE_STATUS_INVALID_ARGUMENT: return "invalid argument";
    case HOTFIRE_STATUS_ABI_MISMATCH: return "abi mismatch";
    case HOTFIRE_STATUS_UNSUPPORTED: return "unsupported";
    case HOTFIRE_STATUS_OUT_OF_MEMORY: return "out of memory";
    case HOTFIRE_STATUS_INTERNAL: return "internal";
    case HOTFIRE_STATUS_CONTEXT_FULL: return "context full";
    case HOTFIRE_STATUS_NO_SNAPSHOT: return "no snapshot";
    }
    return "unknown";
}
