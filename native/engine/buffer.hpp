// Memory of a fixed size, aligned for vectors, not cleared: pages that nobody writes cost nothing.
#pragma once

#include "failure.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace hotfire::engine {

template <class T> class Buffer {
  public:
    Buffer() = default;

    // n times `each` values.
    explicit Buffer(uint64_t n, uint64_t each = 1) {
        uint64_t n_bytes;
        if (__builtin_mul_overflow(n, each, &n_) || __builtin_mul_overflow(n_, sizeof(T), &n_bytes) ||
            n_bytes > INT64_MAX - ALIGNMENT)
            fail(HOTFIRE_STATUS_OUT_OF_MEMORY,
                 "%" PRIu64 " times %" PRIu64 " values of %zu bytes are too many", n, each,
                 sizeof(T));
        void *data = nullptr; // exactly so many bytes, so that sanitizers see the first one past
        if (posix_memalign(&data, ALIGNMENT, n_bytes ? n_bytes : 1) == 0)
            data_.reset(static_cast<T *>(data));
        if (!data_)
            fail(HOTFIRE_STATUS_OUT_OF_MEMORY, "no memory for %" PRIu64 " bytes", n_bytes);
    }

    T *data() { return data_.get(); }
    const T *data() const { return data_.get(); }
    uint64_t size() const { return n_; }
    uint64_t n_bytes() const { return n_ * sizeof(T); }
    explicit operator bool() const { return data_ != nullptr; }

  private:
    static constexpr uint64_t ALIGNMENT = 64;

    struct Free {
        void operator()(T *data) const { std::free(data); }
    };

    std::unique_ptr<T, Free> data_;
    uint64_t n_ = 0;
};

} // namespace hotfire::engine
