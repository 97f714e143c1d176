#ifndef HOTFIRE_STUB_STRINGS_H
#define HOTFIRE_STUB_STRINGS_H
#include <stddef.h>
int strcasecmp(const char *, const char *);
int strncasecmp(const char *, const char *, size_t);
int ffs(int);
#endif
