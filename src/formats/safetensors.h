// Reader of the safetensors format: an 8-byte length, a JSON header, then raw tensors without
// holes. Every rule S1..S15 of docs/formats.md is checked at open, before any tensor can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_dtype.h"
#include "platform/mapped_file.h"

namespace fourfold {

struct TensorEntry {
  std::string name;
  TensorDtype dtype = TensorDtype::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte range in the file
  std::uint64_t elements = 0;
};

class SafetensorsFile {
 public:
  // Throws Error{bad_file} with path, rule, and offset or tensor; Error{io} when the file cannot be
  // read; Error{out_of_memory}.
  static SafetensorsFile open(const std::string& path, FileAccess access = FileAccess::automatic);

  const std::string& path() const { return path_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const TensorEntry* find(std::string_view name) const;  // null when absent

  // The tensor's bytes as stored. Throws Error{shape_mismatch} unless out.size() is end - begin,
  // Error{io} when the file has become shorter since open.
  void read(const TensorEntry& tensor, std::span<std::byte> out) const;
  // Widens F32, F16, BF16 to float, exactly. Throws Error{shape_mismatch} unless out.size() is
  // elements, Error{unsupported} naming tensor and dtype for other dtypes.
  void read_f32(const TensorEntry& tensor, std::span<float> out) const;

 private:
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::vector<TensorEntry> tensors_;
  std::vector<std::size_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
};

}  // namespace fourfold
