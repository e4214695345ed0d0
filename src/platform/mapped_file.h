// A read-only file: memory-mapped where possible, read with pread where not.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fourfold {

enum class FileAccess { automatic, mmap, pread };

// Whether something stands at this path. False only when nothing does: a link without its target,
// or a folder that may not be searched, throws Error{io} with the system's reason.
bool file_is_there(const std::string& path);

class MappedFile {
 public:
  // Throws Error{io} naming the path and the system's reason (missing, a folder, no permission).
  MappedFile(const std::string& path, FileAccess access);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  bool mapped() const { return map_ != nullptr; }

  // Copies bytes [offset, offset + out.size()). Throws Error{io} when the file has become shorter.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  const std::byte* map_ = nullptr;
};

}  // namespace fourfold
