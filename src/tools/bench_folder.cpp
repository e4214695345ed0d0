#include "tools/bench_folder.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fourfold/error.h"

namespace fourfold {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what, int reason) {
  Error error(ErrorCode::io, path + ": " + what + ": " + std::strerror(reason));
  error.path = path;
  throw error;
}

}  // namespace

BenchFolder::BenchFolder(const std::string& parent) {
  const std::filesystem::path base = parent.empty() ? "/tmp" : parent;
  std::string pattern = (base / "fourfold-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail(base.string(), "cannot make a folder there", errno);
  path_ = pattern;
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void BenchFolder::write(const std::string& name, std::span<const float> values, Dtype dtype) const {
  if (dtype == Dtype::f32) {
    write_bytes(name, values.data(), values.size_bytes());
    return;
  }
  std::vector<Bf16> narrow(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = to_bf16(values[i]);
  write_bytes(name, narrow.data(), narrow.size() * sizeof(Bf16));
}

void BenchFolder::write(const std::string& name, std::span<const std::int32_t> values) const {
  write_bytes(name, values.data(), values.size_bytes());
}

void BenchFolder::write_text(const std::string& name, const std::string& text) const {
  write_bytes(name, text.data(), text.size());
}

bool BenchFolder::has(const std::string& name) const {
  std::error_code ignored;
  return std::filesystem::exists(path_ / name, ignored);
}

void BenchFolder::remove(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove(path_ / name, ignored);
}

void BenchFolder::write_bytes(const std::string& name, const void* data, std::size_t bytes) const {
  const std::string path = file(name);
  std::FILE* out = std::fopen(path.c_str(), "wb");
  if (out == nullptr) fail(path, "cannot write the peers' input", errno);
  errno = 0;
  bool done = bytes == 0 || std::fwrite(data, 1, bytes, out) == bytes;
  int reason = errno;
  if (std::fclose(out) != 0 && done) {
    done = false;
    reason = errno;
  }
  if (!done) fail(path, "cannot write the peers' input", reason);
}

}  // namespace fourfold
