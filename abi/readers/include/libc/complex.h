#ifndef HOTFIRE_STUB_COMPLEX_H
#define HOTFIRE_STUB_COMPLEX_H
#ifdef __cplusplus
#error "C++ has a header of its own for this"
#endif
#define complex _Complex
#define _Complex_I (__extension__ 1.0iF)
#define I _Complex_I
#endif
