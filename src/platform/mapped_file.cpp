// Opens, maps and reads a regular file with the POSIX calls. Network file systems are read with
// pread, because a mapping there turns a lost connection into a signal.
#include "platform/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "fourfold/error.h"

namespace fourfold {
namespace {

std::string printable_path(std::string_view path) {
  std::string text(path);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return text;
}

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  Error error(ErrorCode::io, fmt::format("{}: {}", printable_path(path), reason));
  error.path = path;
  throw error;
}

[[noreturn]] void fail_with_errno(const std::string& path, std::string_view action, int number) {
  const std::string reason = std::generic_category().message(number);
  fail(path, fmt::format("cannot {}: {}", action, reason));
}

bool on_network(int descriptor) {
  // NFS, SMB, CIFS, SMB2, FUSE, Lustre, 9P, Ceph: the numbers of statfs(2).
  constexpr std::array<std::uint32_t, 8> kNetwork{0x6969,     0x517B,     0xFF534D42, 0xFE534D42,
                                                  0x65735546, 0x0BD00BD0, 0x01021997, 0x00C36400};
  struct statfs information {};
  if (fstatfs(descriptor, &information) != 0) return true;
  const auto type = static_cast<std::uint32_t>(information.f_type);
  return std::find(kNetwork.begin(), kNetwork.end(), type) != kNetwork.end();
}

// Closes on the way out of a constructor that throws.
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  int release() {
    const int result = number;
    number = -1;
    return result;
  }
};

}  // namespace

bool file_is_there(const std::string& path) {
  struct stat information {};
  if (stat(path.c_str(), &information) == 0) return true;
  const int number = errno;
  const bool nothing =
      (number == ENOENT || number == ENOTDIR) && lstat(path.c_str(), &information) != 0;
  if (!nothing) fail_with_errno(path, number == ENOENT ? "follow the link" : "look", number);
  return false;
}

MappedFile::MappedFile(const std::string& path, FileAccess access) : path_(path) {
  if (path.find('\0') != std::string::npos) fail(path, "a file name must not hold a NUL byte");
  Descriptor descriptor;
  do {
    // Without O_NONBLOCK a pipe would wait here for a writer.
    descriptor.number = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor.number < 0 && errno == EINTR);
  if (descriptor.number < 0) fail_with_errno(path, "open", errno);

  struct stat information {};
  if (fstat(descriptor.number, &information) != 0) fail_with_errno(path, "inspect", errno);
  if (S_ISDIR(information.st_mode)) fail(path, "is a folder; a file is expected");
  if (!S_ISREG(information.st_mode)) fail(path, "is not a regular file");
  size_ = static_cast<std::uint64_t>(information.st_size);

  const bool fits = size_ > 0 && size_ <= std::numeric_limits<std::size_t>::max();
  const bool wanted = access == FileAccess::mmap ||
                      (access == FileAccess::automatic && !on_network(descriptor.number));
  if (fits && wanted) {
    void* map = mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_PRIVATE,
                     descriptor.number, 0);
    if (map != MAP_FAILED) {
      map_ = static_cast<const std::byte*>(map);
    } else if (access == FileAccess::mmap) {
      fail_with_errno(path, "map", errno);
    }
  }
  descriptor_ = descriptor.release();
}

MappedFile::~MappedFile() {
  // munmap takes a pointer to non-const; the bytes are not written.
  if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) close(descriptor_);
}

void MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (out.empty()) return;
  const auto ended = [&](std::uint64_t length) {
    fail(path_, fmt::format("needed {} bytes at byte {}, but the file has {} bytes", out.size(),
                            offset, length));
  };
  if (offset > size_ || out.size() > size_ - offset) ended(size_);
  if (map_ != nullptr) {
    // Touching a page beyond the end of a shrunk file would be a signal, not an error.
    struct stat information {};
    if (fstat(descriptor_, &information) != 0) fail_with_errno(path_, "inspect", errno);
    const auto length = static_cast<std::uint64_t>(information.st_size);
    if (length < size_ && (offset > length || out.size() > length - offset)) ended(length);
    std::memcpy(out.data(), map_ + offset, out.size());
    return;
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno(path_, "read", errno);
    if (count == 0) ended(offset + done);
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace fourfold
