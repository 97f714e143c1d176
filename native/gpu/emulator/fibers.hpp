// Fibers: stacks of their own on one thread. Made by ucontext, switched by _setjmp and _longjmp,
// which save no signal mask and so cost no system call.
#pragma once

#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>

namespace hotfire::gpu {

class Fibers {
  public:
    static constexpr int MAX = 1024;

    // Runs body(i) in fiber i, from its start if it has ended or was forgotten, until it ends or
    // yields. Returns whether it ended.
    bool resume(int i, void (*body)(int));

    // Within a fiber: back to whoever resumed it.
    void yield();

    // Within a fiber: back for good; it must not be resumed before all are forgotten.
    [[noreturn]] void abandon();

    // Lets every fiber start anew, wherever it is.
    void forget();

    bool holds(const void *address) const;

  private:
    struct Fiber {
        ucontext_t start;
        jmp_buf at;
        bool is_made = false, has_ended = false;
    };

    static void entry();
    void make(int i);

    Fiber fibers_[MAX];
    jmp_buf resumer_;
    int current_ = 0;
    void (*body_)(int) = nullptr;
    char *stacks_ = nullptr;
};

extern Fibers fibers;

} // namespace hotfire::gpu
