#ifndef HOTFIRE_STUB_STDNORETURN_H
#define HOTFIRE_STUB_STDNORETURN_H
#define noreturn _Noreturn
#endif
