/*
 * guard.c: says where a kernel was when it faulted or hung.
 *
 * Loaded into the process that runs kernels, never into the library under test. On a fatal signal,
 * and on SIGUSR1, the handler writes one line
 *     signal=<number> address=<hex> access=<read|write|unknown>
 * and then the native stack, one frame a line, to a file descriptor that was opened beforehand.
 * Only async-signal-safe calls are made, but for backtrace(), which is primed at installation.
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_SIZE = 1 << 16, MAX_FRAMES = 48 };

static int report_fd = -1;

static void put(const char *text) {
    ssize_t written = write(report_fd, text, strlen(text));
    (void)written;
}

static void put_number(uint64_t value, unsigned base) {
    char digits[24];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    put(at);
}

static const char *access_of(const ucontext_t *context) {
#if defined(__x86_64__)
    /* Bit 1 of the page fault's error code: set for a write. */
    return context->uc_mcontext.gregs[REG_ERR] & 2 ? "write" : "read";
#else
    (void)context;
    return "unknown";
#endif
}

static void on_signal(int number, siginfo_t *info, void *context) {
    void *frames[MAX_FRAMES];
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    const int is_fault = number == SIGSEGV || number == SIGBUS;
    /* Threads that fault together would mix their lines: the first one's report ends the process. */
    while (number != SIGUSR1 && atomic_flag_test_and_set(&is_reported)) pause();
    put("signal=");
    put_number((uint64_t)number, 10);
    put(" address=0x");
    put_number(is_fault ? (uint64_t)(uintptr_t)info->si_addr : 0, 16);
    put(" access=");
    put(is_fault ? access_of(context) : "unknown");
    put("\n");
    backtrace_symbols_fd(frames, backtrace(frames, MAX_FRAMES), report_fd);
    if (number != SIGUSR1) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* Installs the handlers; reports go to `fd`. Returns 0, or -1 if memory or a handler is refused. */
__attribute__((visibility("default"))) int hotfire_guard_install(int fd) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGUSR1};
    void *prime[1];
    stack_t stack = {.ss_sp = malloc(STACK_SIZE), .ss_size = STACK_SIZE};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    backtrace(prime, 1);
    report_fd = fd;
    if (!stack.ss_sp || sigaltstack(&stack, NULL)) return -1;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], &action, NULL)) return -1;
    return 0;
}
