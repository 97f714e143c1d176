#ifndef HOTFIRE_STUB_STDLIB_H
#define HOTFIRE_STUB_STDLIB_H
#include <stddef.h>
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *memory, size_t size);
void free(void *memory);
void abort(void) __attribute__((__noreturn__));
void exit(int status) __attribute__((__noreturn__));
int abs(int value);
#endif
