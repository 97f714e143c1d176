#ifndef HOTFIRE_STUB_STDALIGN_H
#define HOTFIRE_STUB_STDALIGN_H
#ifndef __cplusplus
#define alignas _Alignas
#define alignof _Alignof
#endif
#endif
