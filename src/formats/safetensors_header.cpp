// First every entry alone (names, keys, dtype, shape, byte count), then all in order of their
// offsets: each tensor must begin where the one before ends, and the last must end with the file.
#include "formats/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/json_reader.h"
#include "formats/utf8.h"

namespace fourfold {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::uint64_t kHeaderStart = 8;
constexpr JsonRules kRules{.utf8 = "S3",
                           .syntax = "S4",
                           .trailing = "S5",
                           .depth = "L1",
                           .number = "S10",
                           .duplicate = "S6"};

class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::uint64_t header_bytes, std::uint64_t data_bytes)
      : path_(path), data_start_(kHeaderStart + header_bytes), data_bytes_(data_bytes) {}

  void check_edges(std::string_view text) const {
    if (text.empty() || text.front() != '{')
      refuse_at("S4", 0,
                text.empty() ? "the header is empty; expected a JSON object that starts with \"{\""
                             : fmt::format("the header starts with \"{}\"; expected \"{{\"",
                                           printable(text.substr(0, 1))));
  }

  // After the JSON text was found valid: only spaces may follow its last bracket.
  void check_padding(std::string_view text) const {
    const std::size_t last = text.find_last_not_of(' ');
    if (text[last] != '}')
      refuse_at("S5", last,
                fmt::format("after the header's last \"}}\" comes \"{}\"; expected only spaces",
                            printable(text.substr(last, 1))));
  }

  // The JSON tree reads -0 as 0, but a dimension or offset is written without a sign.
  void check_minus_zero(std::string_view text) const {
    if (text.find("-0") == std::string_view::npos) return;
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (inside && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        inside = !inside;
      } else if (!inside && text[i] == '-') {
        refuse_at("S10", i, "found a number with a minus sign; expected a plain integer");
      }
    }
  }

  SafetensorsHeader parse(element root) {
    object entries;
    if (root.get(entries) != simdjson::SUCCESS)
      refuse_at("S4", 0, "the header is not a JSON object");
    // simdjson counts an object only up to 2^24 - 1, far above the limit.
    header_.tensors.reserve(std::min(entries.size(), limits::kTensors));
    for (const auto field : entries) {
      if (field.key == "__metadata__") {
        metadata(field.value);
        continue;
      }
      if (header_.tensors.size() == limits::kTensors)
        refuse(name_for_error(field.key), "L2",
               fmt::format("the file holds more than {} tensors", limits::kTensors));
      header_.tensors.push_back(entry(field.key, field.value));
    }
    check_layout();
    return std::move(header_);
  }

 private:
  [[noreturn]] void refuse(std::string_view tensor, std::string_view rule,
                           std::string_view text) const {
    throw file_error({.path = path_, .rule = std::string(rule), .tensor = std::string(tensor)},
                     text);
  }
  [[noreturn]] void refuse_at(std::string_view rule, std::size_t in_header,
                              std::string_view text) const {
    throw file_error({.path = path_,
                      .rule = std::string(rule),
                      .tensor = {},
                      .offset = kHeaderStart + in_header},
                     text);
  }
  // In the data part, so with both a tensor and an offset.
  [[noreturn]] void refuse_data(const TensorEntry& tensor, std::string_view rule,
                                std::uint64_t offset, std::string_view text) const {
    throw file_error(
        {.path = path_, .rule = std::string(rule), .tensor = tensor.name, .offset = offset}, text);
  }
  static std::string_view name_for_error(std::string_view name) {
    return name.empty() ? "(empty name)" : name;
  }

  void metadata(element value) {
    object entries;
    if (value.get(entries) != simdjson::SUCCESS)
      refuse("__metadata__", "S7",
             fmt::format("found {}; expected an object of strings", json_type_name(value)));
    for (const auto field : entries) {
      if (header_.metadata.size() == limits::kMetadataEntries)
        refuse("__metadata__", "L2",
               fmt::format("it holds more than {} entries", limits::kMetadataEntries));
      std::string_view text;
      if (field.value.get(text) != simdjson::SUCCESS)
        refuse("__metadata__", "S7",
               fmt::format("the value of key \"{}\" is {}; expected a string", printable(field.key),
                           json_type_name(field.value)));
      header_.metadata.emplace(field.key, text);
    }
  }

  void check_name(std::string_view name) const {
    if (name.empty() || name.size() > limits::kNameBytes)
      refuse(
          name_for_error(name), "L4",
          fmt::format("the name has {} bytes; expected 1 to {}", name.size(), limits::kNameBytes));
    if (name.find('\0') != std::string_view::npos)
      refuse(name, "L4", "the name holds a NUL character; expected none");
  }

  TensorEntry entry(std::string_view name, element value) const {
    check_name(name);
    object fields;
    if (value.get(fields) != simdjson::SUCCESS)
      refuse(name, "S8",
             fmt::format("found {}; expected an object with dtype, shape and data_offsets",
                         json_type_name(value)));
    std::optional<element> dtype;
    std::optional<element> shape;
    std::optional<element> offsets;
    for (const auto field : fields) {
      if (field.key == "dtype") {
        dtype = field.value;
      } else if (field.key == "shape") {
        shape = field.value;
      } else if (field.key == "data_offsets") {
        offsets = field.value;
      } else {
        refuse(name, "S8",
               fmt::format("unknown key \"{}\"; expected only dtype, shape and data_offsets",
                           printable(field.key)));
      }
    }
    if (!dtype || !shape || !offsets)
      refuse(name, "S8",
             fmt::format("key \"{}\" is missing; expected dtype, shape and data_offsets",
                         !dtype ? "dtype" : (!shape ? "shape" : "data_offsets")));
    TensorEntry tensor;
    tensor.name = name;
    tensor.dtype = read_dtype(name, *dtype);
    tensor.shape = read_shape(name, *shape);
    read_offsets(tensor, *offsets);
    check_span(tensor);
    return tensor;
  }

  TensorDtype read_dtype(std::string_view name, element value) const {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS)
      refuse(name, "S9",
             fmt::format("dtype is {}; expected a string such as \"F32\"", json_type_name(value)));
    const auto dtype = parse_dtype(text);
    if (!dtype)
      refuse(name, "S9",
             fmt::format("unknown dtype \"{}\"; expected BOOL, U8 to U64, I8 to I64, F4 to F64, "
                         "BF16 or C64",
                         printable(text, 64)));
    return *dtype;
  }

  std::uint64_t read_natural(std::string_view name, element value, std::string_view what) const {
    std::uint64_t number = 0;
    const simdjson::error_code code = value.get(number);
    if (code == simdjson::SUCCESS && number <= limits::kInteger) return number;
    std::string found(json_type_name(value));
    if (code == simdjson::SUCCESS) {
      found = std::to_string(number);
    } else if (std::int64_t negative = 0; value.get(negative) == simdjson::SUCCESS) {
      found = std::to_string(negative);
    }
    refuse(name, "S10",
           fmt::format("{} holds {}; expected plain integers from 0 to 2^63 - 1", what, found));
  }

  std::vector<std::uint64_t> read_shape(std::string_view name, element value) const {
    array dimensions;
    if (value.get(dimensions) != simdjson::SUCCESS)
      refuse(name, "S10",
             fmt::format("shape is {}; expected an array of integers", json_type_name(value)));
    if (dimensions.size() > limits::kRank)
      refuse(name, "L5",
             fmt::format("shape has {} dimensions; at most {} are allowed", dimensions.size(),
                         limits::kRank));
    std::vector<std::uint64_t> shape;
    shape.reserve(dimensions.size());
    for (const element dimension : dimensions)
      shape.push_back(read_natural(name, dimension, "shape"));
    return shape;
  }

  void read_offsets(TensorEntry& tensor, element value) const {
    array offsets;
    if (value.get(offsets) != simdjson::SUCCESS || offsets.size() != 2)
      refuse(tensor.name, "S13", "data_offsets is not an array; expected [begin, end]");
    auto offset = offsets.begin();
    tensor.begin = read_natural(tensor.name, *offset, "data_offsets");
    ++offset;
    tensor.end = read_natural(tensor.name, *offset, "data_offsets");
    if (tensor.begin > tensor.end)
      refuse(tensor.name, "S13",
             fmt::format("data_offsets are [{}, {}]; expected begin <= end", tensor.begin,
                         tensor.end));
  }

  // Elements and bytes from shape and dtype against the byte range.
  void check_span(TensorEntry& tensor) const {
    std::uint64_t product = 1;
    bool zero = false;
    for (const std::uint64_t dimension : tensor.shape) {
      zero = zero || dimension == 0;
      if (__builtin_mul_overflow(product, std::max<std::uint64_t>(dimension, 1), &product))
        refuse(tensor.name, "S11", "the product of the dimensions does not fit 64 bits");
    }
    const unsigned width = dtype_bits(tensor.dtype);
    std::uint64_t bits = 0;
    if (__builtin_mul_overflow(product, std::uint64_t{width}, &bits))
      refuse(tensor.name, "S11", "the size of the tensor in bits does not fit 64 bits");
    if (product > limits::kProduct)
      refuse(tensor.name, "L3",
             fmt::format("the product of the dimensions is {}; at most 2^47 is allowed", product));
    tensor.elements = zero ? 0 : product;
    bits = tensor.elements * width;
    if (bits % 8 != 0)
      refuse(tensor.name, "S12",
             fmt::format("{} elements of {} fill {} bits; expected whole bytes", tensor.elements,
                         dtype_name(tensor.dtype), bits));
    const std::uint64_t span = tensor.end - tensor.begin;
    if (span == bits / 8) return;
    if (zero)
      refuse(tensor.name, "S15",
             fmt::format("the tensor has no elements, but data_offsets span {} bytes; expected 0",
                         span));
    refuse(tensor.name, "S13",
           fmt::format("data_offsets span {} bytes, but shape and dtype {} need {}", span,
                       dtype_name(tensor.dtype), bits / 8));
  }

  void check_layout() {
    std::vector<TensorEntry>& tensors = header_.tensors;
    // Zero-size tensors share their begin with the next one and so come first.
    const auto before = [](const TensorEntry& a, const TensorEntry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    };
    if (!std::is_sorted(tensors.begin(), tensors.end(), before))
      std::stable_sort(tensors.begin(), tensors.end(), before);
    std::uint64_t position = 0;
    const TensorEntry* previous = nullptr;
    for (const TensorEntry& tensor : tensors) {
      if (tensor.begin < position)
        refuse_data(tensor, "S13", data_start_ + tensor.begin,
                    fmt::format("it overlaps tensor \"{}\"; each byte belongs to one tensor, "
                                "tied weights are stored once",
                                printable(previous->name)));
      if (tensor.begin > position)
        refuse_data(tensor, "S13", data_start_ + position,
                    fmt::format("a hole of {} bytes lies before it; expected no holes",
                                tensor.begin - position));
      if (tensor.end > data_bytes_)
        refuse_data(tensor, "S14", data_start_ + tensor.begin,
                    fmt::format("it ends at byte {}, but the file has {} bytes; the file is "
                                "truncated, fetch it again",
                                data_start_ + tensor.end, data_start_ + data_bytes_));
      position = tensor.end;
      previous = &tensor;
    }
    if (position != data_bytes_)
      throw file_error(
          {.path = path_, .rule = "S14", .tensor = {}, .offset = data_start_ + position},
          fmt::format("{} bytes follow the last tensor; expected the end of the file",
                      data_bytes_ - position));
    for (TensorEntry& tensor : tensors) {
      tensor.begin += data_start_;
      tensor.end += data_start_;
    }
  }

  const std::string& path_;
  std::uint64_t data_start_, data_bytes_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path,
                                           const simdjson::padded_string& text,
                                           std::uint64_t data_bytes) {
  const std::string_view view(text.data() == nullptr ? "" : text.data(), text.size());
  HeaderParser parser(path, view.size(), data_bytes);
  parser.check_edges(view);
  const JsonDocument document(text, {.path = path,
                                     .rules = kRules,
                                     .offset = kHeaderStart,
                                     .max_depth = limits::kSafetensorsHeaderDepth});
  parser.check_padding(view);
  parser.check_minus_zero(view);
  return parser.parse(document.root());
}

}  // namespace fourfold
