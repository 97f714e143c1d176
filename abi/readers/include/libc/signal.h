#ifndef HOTFIRE_STUB_SIGNAL_H
#define HOTFIRE_STUB_SIGNAL_H
typedef int sig_atomic_t;
#endif
