// A folder of its own for the arrays that `bench` shares with its peers: raw little-endian files.
// Removed at the end, whatever happens in between.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "fourfold/dtype.h"

namespace fourfold {

class BenchFolder {
 public:
  // Below `parent`, or /tmp when it is empty. Throws Error{io}.
  explicit BenchFolder(const std::string& parent);
  ~BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  // NAME.bin; values are stored as dtype. Throws Error{io}.
  void write(const std::string& name, std::span<const float> values, Dtype dtype) const;
  void write(const std::string& name, std::span<const std::int32_t> values) const;
  void write_text(const std::string& name, const std::string& text) const;
  bool has(const std::string& name) const;
  void remove(const std::string& name) const;

 private:
  void write_bytes(const std::string& name, const void* data, std::size_t bytes) const;

  std::filesystem::path path_;
};

}  // namespace fourfold
