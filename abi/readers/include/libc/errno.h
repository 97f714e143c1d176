#ifndef HOTFIRE_STUB_ERRNO_H
#define HOTFIRE_STUB_ERRNO_H
int *__errno_location(void);
#define errno (*__errno_location())
#endif
