#ifndef HOTFIRE_STUB_TIME_H
#define HOTFIRE_STUB_TIME_H
#include <stddef.h>
typedef long time_t;
typedef long clock_t;
struct timespec {
    time_t tv_sec;
    long tv_nsec;
};
#endif
