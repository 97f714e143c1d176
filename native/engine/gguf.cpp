#include "gguf.hpp"

#include "failure.hpp"
#include "hotfire_kernels.h"

#include <algorithm>
#include <cerrno>
#include <cfloat>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hotfire::engine {

namespace {

constexpr uint32_t BOOL = 7, STRING = 8, ARRAY = 9;
constexpr uint32_t RANK_MAX = 4;
constexpr uint64_t NAME_MAX_BYTES = 65535;

// Bytes of a scalar field of that type; 0 for a type that is none.
uint64_t scalar_size(uint32_t type) {
    constexpr uint64_t SIZES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < std::size(SIZES) ? SIZES[type] : 0;
}

template <class T> T read(const uint8_t *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

[[noreturn, gnu::format(printf, 1, 2)]] void damaged(const char *format, ...) {
    char text[192];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(HOTFIRE_STATUS_INVALID_ARGUMENT, "%s", text);
}

} // namespace

Layout layout(Dtype dtype) {
    switch (dtype) {
    case Dtype::f32: return {1, 4, 4};
    case Dtype::f16:
    case Dtype::bf16: return {1, 2, 2};
    case Dtype::q4_0: return {32, sizeof(hotfire_block_q4_0), 2};
    case Dtype::q8_0: return {32, sizeof(hotfire_block_q8_0), 2};
    }
    return {};
}

const char *name(Dtype dtype) {
    switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::q4_0: return "q4_0";
    case Dtype::q8_0: return "q8_0";
    }
    return "unknown";
}

int64_t Tensor::n_values() const {
    int64_t n = 1;
    for (int64_t size : sizes)
        n *= size;
    return n;
}

Mapping::Mapping(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe is not waited for
    if (file < 0)
        damaged("%.100s cannot be opened: %s", path, std::strerror(errno));
    struct stat status {};
    void *at = MAP_FAILED;
    const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (regular && status.st_size > 0)
        at = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (!regular || status.st_size == 0)
        damaged("%.100s is %s; expected a GGUF file", path, regular ? "empty" : "no file");
    if (at == MAP_FAILED)
        damaged("%.100s cannot be mapped: %s", path, std::strerror(errno));
    bytes_ = {static_cast<const uint8_t *>(at), static_cast<size_t>(status.st_size)};
}

Mapping::~Mapping() { munmap(const_cast<uint8_t *>(bytes_.data()), bytes_.size()); }

// Reads front to back, and never past the end.
class Gguf::Cursor {
  public:
    explicit Cursor(std::span<const uint8_t> data) : data_(data) {}

    const uint8_t *take(uint64_t n, const char *what) {
        if (n > left())
            damaged("%.80s at byte %" PRIu64 " takes %" PRIu64 " bytes, %" PRIu64
                    " are left; the file is truncated or damaged",
                    what, at_, n, left());
        at_ += n;
        return data_.data() + at_ - n;
    }

    template <class T> T number(const char *what) { return read<T>(take(sizeof(T), what)); }

    // How many things follow, each of at least so many bytes.
    uint64_t count(uint64_t least_bytes, const char *what) {
        const uint64_t n = number<uint64_t>(what);
        if (n > left() / least_bytes)
            damaged("%" PRIu64 " %.80s do not fit into the %" PRIu64 " bytes that are left", n,
                    what, left());
        return n;
    }

    std::string string(const char *what) {
        const uint64_t n = number<uint64_t>(what);
        if (n > NAME_MAX_BYTES)
            damaged("%s of %" PRIu64 " bytes; expected at most %" PRIu64, what, n, NAME_MAX_BYTES);
        return {reinterpret_cast<const char *>(take(n, what)), n};
    }

    uint64_t at() const { return at_; }

  private:
    uint64_t left() const { return data_.size() - at_; }

    std::span<const uint8_t> data_;
    uint64_t at_ = 0;
};

Gguf::Field Gguf::field(Cursor &cursor, const std::string &key) const {
    const char *what = key.c_str();
    Field field{cursor.number<uint32_t>(what), 0, 1, nullptr};
    const bool array = field.type == ARRAY;
    if (array)
        field.inner = cursor.number<uint32_t>(what);
    const uint32_t each = array ? field.inner : field.type;
    const uint64_t size = scalar_size(each);
    if (each != STRING && size == 0)
        damaged("field %.80s has type %" PRIu32 "; expected a number, text or an array of them",
                what, each);
    if (each != STRING) {
        field.n = array ? cursor.count(size, what) : 1;
        field.data = cursor.take(field.n * size, what);
        return field;
    }
    field.n = array ? cursor.count(sizeof(uint64_t), what) : 1;
    for (uint64_t i = 0; i < field.n; ++i) {
        const uint64_t n_bytes = cursor.number<uint64_t>(what);
        const uint8_t *text = cursor.take(n_bytes, what);
        if (!array)
            field = {STRING, 0, n_bytes, text};
        if (!array)
            break;
    }
    return field;
}

void Gguf::add_tensor(Cursor &cursor, std::vector<uint64_t> &offsets,
                      std::vector<std::string> &names) {
    const std::string own = cursor.string("a tensor's name");
    const uint32_t rank = cursor.number<uint32_t>(own.c_str());
    if (rank > RANK_MAX)
        damaged("tensor %.80s has %" PRIu32 " axes; expected at most %" PRIu32, own.c_str(), rank,
                RANK_MAX);
    Tensor tensor{};
    int64_t n = 1;
    for (uint32_t axis = 0; axis < rank; ++axis) {
        const uint64_t size = cursor.number<uint64_t>(own.c_str());
        if (size == 0 || size > INT64_MAX ||
            __builtin_mul_overflow(n, static_cast<int64_t>(size), &n) || n > INT64_MAX / 64)
            damaged("tensor %.80s has an axis of %" PRIu64 " values, which is absurd", own.c_str(),
                    size);
        tensor.sizes.push_back(static_cast<int64_t>(size));
    }
    const uint32_t type = cursor.number<uint32_t>(own.c_str());
    tensor.dtype = static_cast<Dtype>(type);
    const Layout stored = layout(tensor.dtype);
    if (stored.n_values == 0)
        damaged("tensor %.80s has ggml type %" PRIu32
                "; expected 0 (f32), 1 (f16), 2 (q4_0), 8 (q8_0) or 30 (bf16)",
                own.c_str(), type);
    const int64_t row = tensor.sizes.empty() ? 1 : tensor.sizes[0];
    if (row % stored.n_values)
        damaged("tensor %.80s has rows of %" PRId64 " values; expected a multiple of %" PRId64,
                own.c_str(), row, stored.n_values);
    tensor.n_bytes = static_cast<uint64_t>(n / stored.n_values * stored.n_bytes);
    offsets.push_back(cursor.number<uint64_t>(own.c_str()));
    names.push_back(own);
    if (!tensors_.emplace(own, tensor).second)
        damaged("the tensor %.80s occurs twice", own.c_str());
}

// Gives each tensor its bytes, none of which may be another's.
void Gguf::place(uint64_t begin, const std::vector<uint64_t> &offsets,
                 const std::vector<std::string> &names) {
    const std::span<const uint8_t> bytes = mapping_.bytes();
    const uint64_t room = begin < bytes.size() ? bytes.size() - begin : 0;
    std::vector<std::pair<uint64_t, const std::string *>> order;
    for (size_t i = 0; i < names.size(); ++i) {
        Tensor &tensor = tensors_.at(names[i]);
        if (offsets[i] > room || tensor.n_bytes > room - offsets[i])
            damaged("tensor %.80s takes %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64
                    "; the file is truncated or damaged",
                    names[i].c_str(), tensor.n_bytes, offsets[i], room);
        tensor.data = bytes.data() + begin + offsets[i];
        if (reinterpret_cast<uintptr_t>(tensor.data) %
            static_cast<uintptr_t>(layout(tensor.dtype).alignment))
            damaged("tensor %.80s begins at byte %" PRIu64 ", which its type cannot",
                    names[i].c_str(), begin + offsets[i]);
        order.emplace_back(offsets[i], &names[i]);
    }
    std::ranges::sort(order);
    uint64_t end = 0;
    for (const auto &[offset, own] : order) {
        if (offset < end)
            damaged("tensor %.80s overlaps another", own->c_str());
        end = offset + tensors_.at(*own).n_bytes;
    }
}

Gguf::Gguf(const char *path) : mapping_(path) {
    Cursor cursor(mapping_.bytes());
    if (std::memcmp(cursor.take(4, "the magic"), "GGUF", 4) != 0)
        damaged("it does not begin with GGUF");
    const uint32_t version = cursor.number<uint32_t>("the version");
    if (version != 2 && version != 3)
        damaged("GGUF version %" PRIu32 "; expected 2 or 3", version);
    const uint64_t n_tensors = cursor.count(24, "tensors"), n_fields = cursor.count(13, "fields");
    for (uint64_t i = 0; i < n_fields; ++i) {
        const std::string key = cursor.string("a field's name");
        const Field value = field(cursor, key);
        if (!fields_.emplace(key, value).second)
            damaged("the field %.80s occurs twice", key.c_str());
    }
    std::vector<uint64_t> offsets;
    std::vector<std::string> names;
    for (uint64_t i = 0; i < n_tensors; ++i)
        add_tensor(cursor, offsets, names);
    const int64_t alignment = whole("general.alignment", 1, 1 << 20, 32);
    const uint64_t unit = static_cast<uint64_t>(alignment);
    if (unit & (unit - 1))
        damaged("general.alignment is %" PRId64 "; expected a power of two", alignment);
    place((cursor.at() + unit - 1) / unit * unit, offsets, names);
}

const Gguf::Field *Gguf::find(std::string_view key) const {
    const auto found = fields_.find(key);
    return found == fields_.end() ? nullptr : &found->second;
}

std::string Gguf::text(std::string_view key) const {
    const Field *field = find(key);
    if (!field || field->type != STRING || field->n > NAME_MAX_BYTES)
        damaged("field %.80s is missing or no text", std::string(key).c_str());
    return {reinterpret_cast<const char *>(field->data), field->n};
}

double Gguf::real(const std::string &key) const {
    const Field *field = find(key);
    const double value = !field               ? NAN
                         : field->type == 6   ? static_cast<double>(read<float>(field->data))
                         : field->type == 12  ? read<double>(field->data)
                                              : NAN;
    if (!(value >= FLT_MIN && value <= FLT_MAX))
        damaged("field %.80s is missing, or no positive number that f32 holds", key.c_str());
    return value;
}

int64_t Gguf::whole(const std::string &key, int64_t least, int64_t most,
                    std::optional<int64_t> otherwise) const {
    const Field *field = find(key);
    if (!field && otherwise)
        return *otherwise;
    if (!field)
        damaged("it lacks the field %.80s", key.c_str());
    int64_t value;
    switch (field->type) {
    case 0: value = read<uint8_t>(field->data); break;
    case 1: value = read<int8_t>(field->data); break;
    case 2: value = read<uint16_t>(field->data); break;
    case 3: value = read<int16_t>(field->data); break;
    case 4: value = read<uint32_t>(field->data); break;
    case 5: value = read<int32_t>(field->data); break;
    case 10: // one beyond int64 becomes negative, and is refused below
    case 11: value = read<int64_t>(field->data); break;
    default: damaged("field %.80s is no whole number", key.c_str());
    }
    if (value < least || value > most)
        damaged("field %.80s is %" PRId64 "; expected %" PRId64 " to %" PRId64, key.c_str(), value,
                least, most);
    return value;
}

std::vector<bool> Gguf::flags(const std::string &key, int64_t n) const {
    const Field *field = find(key);
    if (!field)
        return {};
    if (field->type != ARRAY || field->inner != BOOL || field->n < static_cast<uint64_t>(n))
        damaged("field %.80s: expected %" PRId64 " of true or false", key.c_str(), n);
    std::vector<bool> found;
    for (int64_t i = 0; i < n; ++i)
        found.push_back(field->data[i] != 0);
    return found;
}

const Tensor &Gguf::tensor(const std::string &name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
        damaged("it lacks the tensor %.80s", name.c_str());
    return found->second;
}

} // namespace hotfire::engine
