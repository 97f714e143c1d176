#include "fibers.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace hotfire::gpu {

static constexpr size_t PAGE = 1 << 12, STACK_SIZE = 1 << 16; // the lowest page is inaccessible

Fibers fibers;

void Fibers::entry() {
    for (;;) {
        fibers.body_(fibers.current_);
        fibers.fibers_[fibers.current_].has_ended = true;
        fibers.yield();
    }
}

void Fibers::make(int i) {
    if (!stacks_) {
        void *region = mmap(nullptr, MAX * STACK_SIZE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) {
            perror("hotfire emulator: no memory for stacks");
            abort();
        }
        stacks_ = static_cast<char *>(region);
    }
    char *stack = stacks_ + static_cast<size_t>(i) * STACK_SIZE;
    mprotect(stack, PAGE, PROT_NONE);
    Fiber &fiber = fibers_[i];
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stack + PAGE;
    fiber.start.uc_stack.ss_size = STACK_SIZE - PAGE;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, entry, 0);
}

bool Fibers::resume(int i, void (*body)(int)) {
    Fiber &fiber = fibers_[i];
    current_ = i;
    body_ = body;
    fiber.has_ended = false;
    if (_setjmp(resumer_) == 0) {
        if (fibers_[i].is_made)
            _longjmp(fibers_[i].at, 1);
        make(i);
        fibers_[i].is_made = true;
        setcontext(&fibers_[i].start);
    }
    return fibers_[current_].has_ended;
}

void Fibers::yield() {
    if (_setjmp(fibers_[current_].at) == 0)
        _longjmp(resumer_, 1);
}

void Fibers::abandon() { _longjmp(resumer_, 1); }

void Fibers::forget() {
    for (Fiber &fiber : fibers_)
        fiber.is_made = false;
}

bool Fibers::holds(const void *address) const {
    const char *at = static_cast<const char *>(address);
    return stacks_ && at >= stacks_ && at < stacks_ + MAX * STACK_SIZE;
}

} // namespace hotfire::gpu
