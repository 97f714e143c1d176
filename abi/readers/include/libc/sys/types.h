#ifndef HOTFIRE_STUB_SYS_TYPES_H
#define HOTFIRE_STUB_SYS_TYPES_H
#include <stddef.h>
#include <stdint.h>
typedef __PTRDIFF_TYPE__ ssize_t;
typedef long off_t;
typedef int pid_t;
typedef unsigned mode_t;
typedef unsigned uid_t;
typedef unsigned gid_t;
#endif
