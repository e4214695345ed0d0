// Opens the file (rules S1, S2), hands the header on, and copies or widens tensor bytes.
#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "formats/file_error.h"
#include "formats/limits.h"
#include "formats/safetensors_header.h"
#include "formats/utf8.h"

namespace fourfold {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::uint64_t kLengthBytes = 8;

// What a file really is when its first bytes cannot be a header length; empty when unknown.
std::string_view recognise(std::string_view start) {
  if (start.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer, not the file it stands for; run \"git lfs pull\"";
  const std::size_t text = start.find_first_not_of(" \t\r\n");
  if (text != std::string_view::npos && start[text] == '<')
    return "this is a web page (HTML or XML), not a tensor file; fetch the file itself";
  if (start.starts_with("GGUF")) return "this is a GGUF file; expected a safetensors file";
  if (start.starts_with("PK\x03\x04"))
    return "this is a zip archive, perhaps a PyTorch checkpoint; expected a safetensors file";
  if (text != std::string_view::npos && start[text] == '{')
    return "this is a JSON text; expected a safetensors file";
  return {};
}

std::uint64_t read_header_length(const MappedFile& file) {
  std::array<char, 64> start{};
  const auto available =
      static_cast<std::size_t>(std::min<std::uint64_t>(start.size(), file.size()));
  file.read(0, std::as_writable_bytes(std::span(start).first(available)));
  const auto refuse = [&](std::string_view rule, std::string_view text) {
    const std::string_view kind = recognise({start.data(), available});
    throw file_error({.path = file.path(), .rule = std::string(rule), .tensor = {}, .offset = 0},
                     kind.empty() ? std::string(text) : fmt::format("{} ({})", kind, text));
  };
  if (file.size() < kLengthBytes)
    refuse("S1", fmt::format("the file has {} bytes; expected at least 8", file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  if (length > limits::kSafetensorsHeaderBytes)
    refuse("S2", fmt::format("the header length reads {}; at most {} is allowed", length,
                             limits::kSafetensorsHeaderBytes));
  if (length > file.size() - kLengthBytes)
    refuse("S2", fmt::format("the header length reads {}, but only {} bytes follow; the file is "
                             "truncated or not a safetensors file",
                             length, file.size() - kLengthBytes));
  return length;
}

Error size_error(const SafetensorsFile& file, const TensorEntry& tensor, std::size_t found,
                 std::uint64_t expected, std::string_view unit) {
  return file_error(
      {.path = file.path(), .rule = {}, .tensor = tensor.name, .offset = tensor.begin},
      fmt::format("the buffer holds {} {}; expected {}", found, unit, expected),
      ErrorCode::shape_mismatch);
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path, FileAccess access) {
  SafetensorsFile result;
  result.path_ = path;
  result.file_ = std::make_shared<MappedFile>(path, access);
  const std::uint64_t length = read_header_length(*result.file_);

  const auto size = static_cast<std::size_t>(length);
  simdjson::padded_string text(size);
  if (text.size() != size)
    throw file_error({.path = path, .rule = {}, .tensor = {}},
                     fmt::format("not enough memory for a header of {} bytes", length),
                     ErrorCode::out_of_memory);
  if (size > 0)
    result.file_->read(kLengthBytes, std::as_writable_bytes(std::span(text.data(), size)));
  SafetensorsHeader header =
      parse_safetensors_header(path, text, result.file_->size() - kLengthBytes - length);
  result.tensors_ = std::move(header.tensors);
  result.metadata_ = std::move(header.metadata);

  result.by_name_.resize(result.tensors_.size());
  std::iota(result.by_name_.begin(), result.by_name_.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return result.tensors_[a].name < result.tensors_[b].name;
  };
  if (!std::is_sorted(result.by_name_.begin(), result.by_name_.end(), before))
    std::sort(result.by_name_.begin(), result.by_name_.end(), before);
  return result;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto place = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::size_t index, std::string_view wanted) { return tensors_[index].name < wanted; });
  if (place == by_name_.end() || tensors_[*place].name != name) return nullptr;
  return &tensors_[*place];
}

void SafetensorsFile::read(const TensorEntry& tensor, std::span<std::byte> out) const {
  if (out.size() != tensor.end - tensor.begin)
    throw size_error(*this, tensor, out.size(), tensor.end - tensor.begin, "bytes");
  file_->read(tensor.begin, out);
}

void SafetensorsFile::read_f32(const TensorEntry& tensor, std::span<float> out) const {
  const bool wide = tensor.dtype == TensorDtype::f32;
  const bool brain = tensor.dtype == TensorDtype::bf16;
  if (!wide && !brain && tensor.dtype != TensorDtype::f16)
    throw file_error({.path = path_, .rule = {}, .tensor = tensor.name, .offset = tensor.begin},
                     fmt::format("dtype {} cannot be read as float; F32, F16 and BF16 can",
                                 dtype_name(tensor.dtype)),
                     ErrorCode::unsupported);
  if (out.size() != tensor.elements)
    throw size_error(*this, tensor, out.size(), tensor.elements, "numbers");
  if (wide) {
    file_->read(tensor.begin, std::as_writable_bytes(out));
    return;
  }
  std::array<std::uint16_t, 8192> halves;
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t count = std::min(halves.size(), out.size() - done);
    file_->read(tensor.begin + 2 * done, std::as_writable_bytes(std::span(halves).first(count)));
    std::transform(halves.begin(), halves.begin() + static_cast<std::ptrdiff_t>(count),
                   out.begin() + static_cast<std::ptrdiff_t>(done), brain ? widen_bf16 : widen_f16);
    done += count;
  }
}

}  // namespace fourfold
