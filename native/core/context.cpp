#include "context.hpp"

#include <initializer_list>
#include <new>

static constexpr uint32_t MAX_THREADS = 1024;

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
        return HOTFIRE_STATUS_INVALID_ARGUMENT;
    if (params->struct_size != sizeof *params || params->abi_version != HOTFIRE_ABI_VERSION)
        return HOTFIRE_STATUS_ABI_MISMATCH;
    if (params->n_threads > MAX_THREADS)
        return HOTFIRE_STATUS_INVALID_ARGUMENT;
    const hotfire_isa isa = static_cast<hotfire_isa>(params->isa);
    if (params->backend != HOTFIRE_BACKEND_CPU || !hotfire_isa_available(isa))
        return HOTFIRE_STATUS_UNSUPPORTED;
    hotfire_context *made = new (std::nothrow) hotfire_context{};
    if (!made)
        return HOTFIRE_STATUS_OUT_OF_MEMORY;
    made->isa = isa == HOTFIRE_ISA_AUTO ? widest() : isa;
    made->n_threads = params->n_threads ? params->n_threads : 1;
    *context = made;
    return HOTFIRE_STATUS_OK;
}

extern "C" void hotfire_context_free(hotfire_context *context) { delete context; }

extern "C" hotfire_isa hotfire_context_isa(const hotfire_context *context) { return context->isa; }

extern "C" const char *hotfire_context_error(const hotfire_context *context) {
    return context->error;
}
