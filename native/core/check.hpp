// Checks the arguments of an entry point, then runs the kernel. The first failure wins: it sets the
// status and the context's error text, and nothing is run.
//
//     return Check(exec)
//         .size("n_rows", n_rows).size("n_cols", n_cols)
//         .input("x", x, {n_rows, n_cols})
//         .output("y", y, {n_rows, n_cols}, x)
//         .run(softmax, x, y, n_rows, n_cols);
//
// A kernel that takes a Range first computes some of a call's items, and the call may be split over
// the context's threads:
//
//         .run({{n_rows}, {4, n_cols}}, swiglu, gate, up, y, n_cols);
#pragma once

#include "hotfire_kernels.h"
#include "variants.hpp"

#include <initializer_list>
#include <type_traits>

namespace hotfire {

// How many values one element of an operand holds.
template <class T> inline constexpr int64_t block_len = 1;
template <> inline constexpr int64_t block_len<hotfire_block_q8_0> = 32;
template <> inline constexpr int64_t block_len<hotfire_block_q4_0> = 32;

// How a call may be split: its items, as the product of some sizes, each worth about the product of
// other sizes in multiplications. Items are cut at multiples of `unit`, or not at all if it is WHOLE.
struct Split {
    static constexpr int64_t WHOLE = INT32_MAX;

    Split(std::initializer_list<int64_t> items, std::initializer_list<int64_t> costs,
          int64_t unit = 1);

    int64_t n_items = 1, unit;
    double cost = 1;
};

class Check {
  public:
    explicit Check(const hotfire_exec *exec);

    // A size is never negative.
    Check &size(const char *name, int64_t value, int64_t multiple_of = 1);

    // A size that must lie in [least, most] too. Call it before `size` says only "0 or more".
    Check &within(const char *name, int64_t value, int64_t least, int64_t most);

    // n_seqs + 1 numbers from 0 up to n_tokens, none below the one before. Call it after the
    // operand itself is checked.
    Check &starts(const char *name, const int32_t *starts, int64_t n_seqs, int64_t n_tokens);

    // begin[s] and length[s] must name rows of a pool of n_rows; length[s] is at least the number
    // of this call's tokens, starts[s + 1] - starts[s]. Call it after the starts.
    Check &ranges(const char *name, const int32_t *begin, const int32_t *length,
                  const int32_t *starts, int64_t n_seqs, int64_t n_rows);

    // The call needs so many bytes of workspace: the product of the factors.
    Check &workspace(std::initializer_list<int64_t> factors);

    // The caller's workspace, to hand to the kernel.
    template <class T> T *scratch() const { return static_cast<T *>(workspace_); }

    // Whether the call asks for fast arithmetic.
    bool fast() const { return fast_; }

    // A scalar that must be finite and above 0.
    Check &positive(const char *name, float value);

    // Elements from one row of an operand to the next, at least as many as a row has.
    struct Stride {
        const char *name = nullptr;
        int64_t value = 0;
    };

    // Shapes count values, outermost axis first. Call these after the sizes are checked. Without a
    // stride the rows lie next to each other.
    template <class T>
    Check &input(const char *name, const T *data, std::initializer_list<int64_t> shape,
                 Stride stride = {}) {
        return operand({name, data, sizeof(T), alignof(T), block_len<T>, stride}, shape);
    }

    // `in_place` is the input that this output may exactly cover.
    template <class T>
    Check &output(const char *name, T *data, std::initializer_list<int64_t> shape,
                  const void *in_place = nullptr, Stride stride = {}) {
        return operand({name, data, sizeof(T), alignof(T), block_len<T>, stride, true, in_place},
                       shape);
    }

    // Runs the variant of the context's instruction set, unless there is nothing to write.
    template <class... Args>
    hotfire_status run(const Variants<Args...> &kernel, std::type_identity_t<Args>... args) const {
        if (status_ == HOTFIRE_STATUS_OK && any_output_)
            kernel.of(isa())(args...);
        return status_;
    }

    template <class... Args>
    hotfire_status run(Split split, const Variants<Range, Args...> &kernel,
                       std::type_identity_t<Args>... args) const {
        if (status_ == HOTFIRE_STATUS_OK && any_output_) {
            const auto some = [&](Range range) { kernel.of(isa())(range, args...); };
            in_parts(split, [](const void *job, Range range) {
                (*static_cast<const decltype(some) *>(job))(range);
            }, &some);
        }
        return status_;
    }

  private:
    struct Operand {
        const char *name;
        const void *data;
        uint64_t element_size, alignment;
        int64_t block_len;
        Stride stride = {};
        bool is_output = false;
        const void *in_place = nullptr;
        uint64_t n_bytes = 0; // from the first row's start to the last row's end
    };

    bool ok() const { return status_ == HOTFIRE_STATUS_OK; }
    hotfire_isa isa() const;
    void refuse_lost();
    void in_parts(const Split &split, void (*some)(const void *, Range), const void *job) const;
    Check &operand(Operand operand, std::initializer_list<int64_t> shape);
    bool measure(Operand &operand, std::initializer_list<int64_t> shape);
    void check_overlap(const Operand &operand);
    [[gnu::format(printf, 2, 3)]] void fail(const char *format, ...);

    static constexpr int MAX_OPERANDS = 16;

    hotfire_context *context_ = nullptr;
    hotfire_status status_ = HOTFIRE_STATUS_OK;
    bool any_output_ = false;
    bool fast_ = false;
    void *workspace_ = nullptr;
    uint64_t workspace_size_ = 0;
    int n_operands_ = 0;
    Operand operands_[MAX_OPERANDS];
};

} // namespace hotfire
