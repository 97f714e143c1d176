#ifndef HOTFIRE_STUB_TIME_H
#define HOTFIRE_STUB_TIME_H
#include <stddef.h>
#ifdef _WIN32
typedef long long time_t;
#else
typedef long time_t;
#endif
typedef long clock_t;
struct timespec {
    time_t tv_sec;
    long tv_nsec;
};
#endif
