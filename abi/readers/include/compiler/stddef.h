/* Stands in for the compiler's own header, so that any target can be parsed without a sysroot. */
#ifndef HOTFIRE_STUB_STDDEF_H
#define HOTFIRE_STUB_STDDEF_H
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef __cplusplus
typedef __WCHAR_TYPE__ wchar_t;
#endif
typedef struct { long long a; long double b; } max_align_t;
#undef NULL
#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
