// Mutants: planted bugs, written where they bite, so that the suites can prove that they notice.
//
//     HOTFIRE_MUTANT(rms_norm, rms_norm_short_sum, "the last element is left out of the mean");
//     const int64_t n_summed = rms_norm_short_sum ? n_embd - 1 : n_embd;
//
// A header that several operations share, each in a file of its own, names the operation by
// HOTFIRE_OPERATION and its mutants without it:
//
//     HOTFIRE_FAMILY_MUTANT(sum_in_f16, "the sum is rounded to f16");
//
// In the shipped library the name is the constant false and the compiler drops the branch.
#pragma once

#ifdef HOTFIRE_WITH_MUTANTS

namespace hotfire {

struct Mutant {
    Mutant(const char *operation, const char *name, const char *doc, bool *on);

    const char *operation, *name, *doc;
    bool *on;
    Mutant *next = nullptr;
};

} // namespace hotfire

#define HOTFIRE_MUTANT(operation, name, doc)                                                       \
    static bool name = false;                                                                      \
    static ::hotfire::Mutant name##_mutant(#operation, #name, doc, &name)

#define HOTFIRE_FAMILY_MUTANT(name, doc)                                                           \
    static bool name = false;                                                                      \
    static ::hotfire::Mutant name##_mutant(HOTFIRE_OPERATION, HOTFIRE_OPERATION "_" #name, doc, &name)

#else

#define HOTFIRE_MUTANT(operation, name, doc) [[maybe_unused]] static constexpr bool name = false
#define HOTFIRE_FAMILY_MUTANT(name, doc) HOTFIRE_MUTANT(, name, doc)

#endif

// What mutants do to memory that is not theirs; volatile, so that it happens.
static inline void touch(const void *address) {
    static_cast<void>(*static_cast<const volatile unsigned char *>(address));
}

static inline void spoil(void *address) {
    volatile unsigned char *byte = static_cast<volatile unsigned char *>(address);
    *byte = static_cast<unsigned char>(~*byte);
}
