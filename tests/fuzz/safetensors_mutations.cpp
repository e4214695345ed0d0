// Damages a safetensors file in every simple way: cut at every 4 KiB, and each header byte changed
// in five ways. Each damaged file must give a clean refusal or a valid load, never a crash.
//   safetensors_mutations FILE SCRATCH_FOLDER    runs the damage loop on a copy of FILE
//   safetensors_mutations --refused FOLDER N     writes N small refused files and manifest.tsv
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "formats/refused_cases.h"
#include "formats/safetensors.h"
#include "fourfold/error.h"

namespace {

using namespace fourfold;

constexpr int kWays = 5;

char damage(char byte, int way) {
  const auto value = static_cast<unsigned char>(byte);
  switch (way) {
    case 0: return 0;
    case 1: return static_cast<char>(0xFF);
    case 2: return static_cast<char>(value ^ 1U);
    case 3: return static_cast<char>(value ^ 0x80U);
    default: return static_cast<char>(value + 1U);
  }
}

[[noreturn]] void stop(const std::string& reason) {
  fmt::print(stderr, "safetensors_mutations: {}\n", reason);
  std::exit(1);
}

// A refusal must say where, by which rule, and in printable text.
void check_refusal(const Error& error, const std::string& path) {
  const std::string_view message = error.what();
  const bool placed = error.offset != Error::kNoOffset || !error.tensor.empty();
  const bool clean = std::none_of(message.begin(), message.end(),
                                  [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (error.code != ErrorCode::bad_file || error.rule.empty() || !placed || !clean ||
      message.find(path) == std::string_view::npos)
    stop(fmt::format("an unfit message: {}", message));
}

// The loaded tensors must tile the data, and a few of them must read the same both ways.
void check_load(const SafetensorsFile& file, FileAccess access, std::uint64_t size) {
  const FileAccess other = access == FileAccess::mmap ? FileAccess::pread : FileAccess::mmap;
  const SafetensorsFile twin = SafetensorsFile::open(file.path(), other);
  if (twin.tensors().size() != file.tensors().size()) stop("two ways of reading disagree");
  if (!file.tensors().empty() && file.tensors().back().end != size)
    stop("a loaded file has bytes that belong to no tensor");
  int budget = 3;
  for (std::size_t i = 0; i < file.tensors().size() && budget > 0; ++i) {
    const TensorEntry& tensor = file.tensors()[i];
    if (tensor.end - tensor.begin > 65'536) continue;
    --budget;
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.end - tensor.begin));
    std::vector<std::byte> twin_bytes(bytes.size());
    file.read(tensor, bytes);
    twin.read(twin.tensors()[i], twin_bytes);
    if (bytes != twin_bytes) stop("two ways of reading give different bytes");
    if (tensor.dtype != TensorDtype::f32 && tensor.dtype != TensorDtype::f16 &&
        tensor.dtype != TensorDtype::bf16)
      continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.elements));
    file.read_f32(tensor, values);
  }
}

class Tally {
 public:
  // Opens the file; every second time by mapping it. Returns whether it was refused.
  bool open(const std::string& path, std::uint64_t size) {
    const FileAccess access = tried_++ % 2 == 0 ? FileAccess::mmap : FileAccess::pread;
    try {
      const SafetensorsFile file = SafetensorsFile::open(path, access);
      check_load(file, access, size);
      ++loaded_;
      return false;
    } catch (const Error& error) {
      check_refusal(error, path);
      ++rules_[error.rule];
      return true;
    }
  }

  void print(std::string_view name) const {
    fmt::print("{}: {} tried, {} refused, {} loaded\n", name, tried_, tried_ - loaded_, loaded_);
    for (const auto& [rule, count] : rules_) fmt::print("  {} {}\n", rule, count);
  }
  std::uint64_t loaded() const { return loaded_; }

 private:
  std::uint64_t tried_ = 0, loaded_ = 0;
  std::map<std::string, std::uint64_t> rules_;
};

int run_damage(const std::string& source, const std::string& folder) {
  const std::string path = folder + "/damaged.safetensors";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(source, path, std::filesystem::copy_options::overwrite_existing);
  const std::uint64_t size = std::filesystem::file_size(path);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) stop("cannot open the scratch copy");
  if (Tally().open(path, size)) stop("the undamaged file is refused");

  std::uint64_t header = 0;
  if (pread(descriptor, &header, sizeof header, 0) != sizeof header) stop("cannot read");
  std::string bytes(static_cast<std::size_t>(8 + header), '\0');
  if (pread(descriptor, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    stop("cannot read the header");
  const auto put = [&](std::size_t at, char byte) {
    if (pwrite(descriptor, &byte, 1, static_cast<off_t>(at)) != 1) stop("cannot write");
  };
  Tally mutations;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (int way = 0; way < kWays; ++way) {
      const char changed = damage(bytes[at], way);
      if (changed == bytes[at]) continue;
      put(at, changed);
      mutations.open(path, size);
      put(at, bytes[at]);
    }
  mutations.print("header bytes");

  Tally cuts;
  const auto cut = [&](std::uint64_t length) {
    if (ftruncate(descriptor, static_cast<off_t>(length)) != 0) stop("cannot truncate");
    cuts.open(path, length);
  };
  cut(size - 1);
  for (std::uint64_t block = (size - 1) / 4096 + 1; block-- > 0;)
    if (block * 4096 < size - 1) cut(block * 4096);
  cuts.print("truncations");
  close(descriptor);
  std::filesystem::remove(path);
  if (cuts.loaded() != 0) stop("a truncated file was loaded");
  return 0;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) stop("cannot write " + path);
}

// The rule that refuses these bytes, or nothing when they load.
std::optional<std::string> rule_of(const std::string& path, const std::string& bytes) {
  write_file(path, bytes);
  try {
    SafetensorsFile::open(path);
  } catch (const Error& error) {
    check_refusal(error, path);
    return error.rule;
  }
  return std::nullopt;
}

int write_refused(const std::string& folder, std::size_t wanted) {
  std::filesystem::create_directories(folder);
  std::set<std::string> seen;
  std::string manifest;
  const auto keep = [&](const std::string& bytes, const std::string& expected) {
    if (seen.size() == wanted || !seen.insert(bytes).second) return;
    const std::string name = fmt::format("case_{:04}.safetensors", seen.size() - 1);
    const std::string path = folder + "/" + name;
    const auto rule = rule_of(path, bytes);
    if (!rule && expected.empty()) {
      seen.erase(bytes);
      std::filesystem::remove(path);
      return;
    }
    if (!expected.empty() && rule != expected)
      stop(fmt::format("{}: expected rule {}, found {}", path, expected, rule.value_or("none")));
    manifest += fmt::format("{}\t{}\n", name, *rule);
  };
  for (const auto& broken : testing::refused_cases()) keep(broken.bytes, broken.rule);
  const std::string base = testing::small_valid_file();
  // A step prime to the number of changes spreads the cases over the whole header.
  const std::size_t changes = (base.size() - 34) * kWays;
  for (std::size_t i = 0, at = 0; i < changes; ++i, at = (at + 101) % changes) {
    std::string bytes = base;
    bytes[at / kWays] = damage(bytes[at / kWays], static_cast<int>(at % kWays));
    if (bytes != base) keep(bytes, {});
  }
  for (std::size_t cut = 1; cut < base.size(); ++cut) keep(base.substr(0, base.size() - cut), {});
  write_file(folder + "/manifest.tsv", manifest);
  if (seen.size() < wanted) stop(fmt::format("only {} cases could be made", seen.size()));
  fmt::print("{} refused files in {}\n", seen.size(), folder);
  return 0;
}

std::size_t parse_count(std::string_view text) {
  std::size_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code != std::errc() || end != text.data() + text.size()) stop("N is not a number");
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 3 && arguments[0] == "--refused")
      return write_refused(arguments[1], parse_count(arguments[2]));
    if (arguments.size() == 2) return run_damage(arguments[0], arguments[1]);
  } catch (const std::exception& error) {
    stop(error.what());
  }
  fmt::print(stderr,
             "usage: safetensors_mutations FILE SCRATCH_FOLDER\n"
             "       safetensors_mutations --refused FOLDER N\n");
  return 2;
}
