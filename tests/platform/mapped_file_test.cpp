// Mapping and pread give the same bytes; every failure is an io error that names the path.
#include "platform/mapped_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/temp_folder.h"
#include "fourfold/error.h"

using namespace fourfold;
using namespace fourfold::testing;

namespace {

Error failure(const std::string& path, FileAccess access = FileAccess::automatic) {
  try {
    const MappedFile file(path, access);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::invalid_argument, "opened"};
}

std::string text(const MappedFile& file, std::uint64_t offset, std::size_t size) {
  std::string result(size, '?');
  file.read(offset, std::as_writable_bytes(std::span(result)));
  return result;
}

bool read_fails(const MappedFile& file, std::uint64_t offset, std::size_t size) {
  try {
    text(file, offset, size);
  } catch (const Error& error) {
    return error.code == ErrorCode::io && error.path == file.path();
  }
  return false;
}

}  // namespace

TEST_CASE("both ways of reading give the same bytes") {
  const TempFolder folder;
  std::string bytes;
  for (int i = 0; i < 10007; ++i) bytes += static_cast<char>(i * 31 % 251);
  const std::string path = folder.write("f.bin", bytes);
  const MappedFile mapped(path, FileAccess::mmap);
  const MappedFile plain(path, FileAccess::pread);
  CHECK(mapped.mapped());
  CHECK_FALSE(plain.mapped());
  for (const MappedFile* file : {&mapped, &plain}) {
    CHECK(file->size() == 10007);
    CHECK(text(*file, 0, 10007) == bytes);
    CHECK(text(*file, 4093, 17) == bytes.substr(4093, 17));
    CHECK(text(*file, 10007, 0).empty());
    CHECK(read_fails(*file, 10006, 2));
    CHECK(read_fails(*file, 10008, 1));
    CHECK(read_fails(*file, UINT64_MAX, 2));
  }
}

TEST_CASE("an empty file opens in every way") {
  const TempFolder folder;
  const std::string path = folder.write("empty", "");
  for (const auto access : {FileAccess::automatic, FileAccess::mmap, FileAccess::pread}) {
    const MappedFile file(path, access);
    CHECK(file.size() == 0);
    CHECK(read_fails(file, 0, 1));
  }
}

TEST_CASE("a file that shrinks gives an error, not a signal") {
  const TempFolder folder;
  for (const auto access : {FileAccess::mmap, FileAccess::pread}) {
    const std::string path = folder.write("shrinks", std::string(20000, 'x'));
    const MappedFile file(path, access);
    std::filesystem::resize_file(path, 5000);
    CHECK(read_fails(file, 4990, 20));
    CHECK(read_fails(file, 19000, 10));
    CHECK(text(file, 4990, 10) == "xxxxxxxxxx");
  }
}

TEST_CASE("what is not a readable file is an io error with its path") {
  const TempFolder folder;
  CHECK(failure(folder.path() + "/absent").code == ErrorCode::io);
  CHECK(failure(folder.path() + "/absent").path == folder.path() + "/absent");
  CHECK(std::string(failure(folder.path()).what()).find("folder") != std::string::npos);
  CHECK(failure("/dev/zero").code == ErrorCode::io);
  CHECK(failure("").code == ErrorCode::io);
  CHECK(failure(std::string("a\0b", 3)).code == ErrorCode::io);
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(failure(pipe).code == ErrorCode::io);
  CHECK(std::string(failure("no\nsuch").what()).find('\n') == std::string::npos);
}
