#ifndef HOTFIRE_STUB_INTTYPES_H
#define HOTFIRE_STUB_INTTYPES_H
#include <stdint.h>
#endif
