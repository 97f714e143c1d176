#ifndef HOTFIRE_STUB_WCHAR_H
#define HOTFIRE_STUB_WCHAR_H
#include <stddef.h>
typedef __WINT_TYPE__ wint_t;
#endif
