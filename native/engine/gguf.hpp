// A GGUF file, mapped and read with every length checked before it is believed.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hotfire::engine {

// What values are stored as, with ggml's numbers.
enum class Dtype : uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q8_0 = 8, bf16 = 30 };

// Values that one element of a stored row holds, and its bytes.
struct Layout {
    int64_t n_values, n_bytes, alignment;
};

Layout layout(Dtype dtype);
const char *name(Dtype dtype);

// Sizes are innermost first, as in the file.
struct Tensor {
    Dtype dtype;
    std::vector<int64_t> sizes;
    const uint8_t *data;
    uint64_t n_bytes;

    int64_t n_values() const;
};

// A file that is mapped while this lives.
class Mapping {
  public:
    explicit Mapping(const char *path);
    ~Mapping();
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    std::span<const uint8_t> bytes() const { return bytes_; }

  private:
    std::span<const uint8_t> bytes_;
};

// Throws Failure, INVALID_ARGUMENT, for a file that cannot be read, is damaged, or lacks something.
class Gguf {
  public:
    explicit Gguf(const char *path);

    std::string text(std::string_view key) const;
    // A number above 0 that f32 holds; it must be there.
    double real(const std::string &key) const;
    // A whole number of least to most; without `otherwise` it must be there.
    int64_t whole(const std::string &key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = {}) const;
    // An array of true and false, empty if there is none; at least n long otherwise.
    std::vector<bool> flags(const std::string &key, int64_t n) const;

    bool has(const std::string &name) const { return tensors_.contains(name); }
    const Tensor &tensor(const std::string &name) const;
    const std::map<std::string, Tensor> &tensors() const { return tensors_; }

  private:
    struct Field {
        uint32_t type, inner;
        uint64_t n;
        const uint8_t *data;
    };
    class Cursor;

    Field field(Cursor &cursor, const std::string &key) const;
    void add_tensor(Cursor &cursor, std::vector<uint64_t> &offsets,
                    std::vector<std::string> &names);
    void place(uint64_t begin, const std::vector<uint64_t> &offsets,
               const std::vector<std::string> &names);
    const Field *find(std::string_view key) const;

    Mapping mapping_;
    std::map<std::string, Field, std::less<>> fields_;
    std::map<std::string, Tensor> tensors_;
};

} // namespace hotfire::engine
