#include "context.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <new>

static constexpr uint32_t MAX_THREADS = 1024;

char *hotfire::error_text(hotfire_context *context) {
    thread_local char own[ERROR_SIZE];
    return context ? context->error : own;
}

[[gnu::format(printf, 2, 3)]] static hotfire_status refuse(hotfire_status status,
                                                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(hotfire::error_text(nullptr), hotfire::ERROR_SIZE, format, arguments);
    va_end(arguments);
    return status;
}

static const char *name(hotfire_isa isa) {
    switch (isa) {
    case HOTFIRE_ISA_AUTO: return "auto";
    case HOTFIRE_ISA_SCALAR: return "scalar";
    case HOTFIRE_ISA_AVX2: return "avx2";
    case HOTFIRE_ISA_AVX512: return "avx512";
    }
    return "unknown";
}

static hotfire_isa widest() {
    for (hotfire_isa isa : {HOTFIRE_ISA_AVX512, HOTFIRE_ISA_AVX2})
        if (hotfire_isa_available(isa))
            return isa;
    return HOTFIRE_ISA_SCALAR;
}

extern "C" int32_t hotfire_isa_available(hotfire_isa isa) {
    switch (isa) {
    case HOTFIRE_ISA_AUTO:
    case HOTFIRE_ISA_SCALAR: return 1;
#if defined(__x86_64__)
    // These ask the operating system too, whether it saves the wide registers.
    case HOTFIRE_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("f16c");
    case HOTFIRE_ISA_AVX512:
        return hotfire_isa_available(HOTFIRE_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
    default: return 0;
    }
}

extern "C" hotfire_status hotfire_context_create(const hotfire_context_params *params,
                                                 hotfire_context **context) {
    if (!params || !context)
        return refuse(HOTFIRE_STATUS_INVALID_ARGUMENT, "%s is NULL", params ? "context" : "params");
    if (params->struct_size != sizeof *params)
        return refuse(HOTFIRE_STATUS_ABI_MISMATCH, "params.struct_size is %" PRIu32 "; expected %zu",
                      params->struct_size, sizeof *params);
    if (params->abi_version != HOTFIRE_ABI_VERSION)
        return refuse(HOTFIRE_STATUS_ABI_MISMATCH, "params.abi_version is %" PRIu32 "; expected %d",
                      params->abi_version, HOTFIRE_ABI_VERSION);
    if (params->n_threads > MAX_THREADS)
        return refuse(HOTFIRE_STATUS_INVALID_ARGUMENT,
                      "n_threads is %" PRIu32 "; expected at most %" PRIu32, params->n_threads,
                      MAX_THREADS);
    if (params->backend != HOTFIRE_BACKEND_CPU)
        return refuse(HOTFIRE_STATUS_UNSUPPORTED, "backend is %" PRIu32 "; expected %d, the CPU",
                      params->backend, HOTFIRE_BACKEND_CPU);
    const hotfire_isa isa = static_cast<hotfire_isa>(params->isa);
    if (!hotfire_isa_available(isa))
        return refuse(HOTFIRE_STATUS_UNSUPPORTED,
                      "this machine cannot run isa %" PRIu32 " (%s); expected 0 (auto) for its "
                      "widest, %s",
                      params->isa, name(isa), name(widest()));
    hotfire_context *made = new (std::nothrow) hotfire_context{};
    if (!made)
        return refuse(HOTFIRE_STATUS_OUT_OF_MEMORY, "no memory for a context");
    made->isa = isa == HOTFIRE_ISA_AUTO ? widest() : isa;
    made->n_threads = params->n_threads ? params->n_threads : 1;
    *context = made;
    return HOTFIRE_STATUS_OK;
}

extern "C" void hotfire_context_free(hotfire_context *context) { delete context; }

extern "C" hotfire_isa hotfire_context_isa(const hotfire_context *context) {
    return context ? context->isa : HOTFIRE_ISA_AUTO;
}

extern "C" const char *hotfire_context_error(const hotfire_context *context) {
    return hotfire::error_text(const_cast<hotfire_context *>(context));
}
