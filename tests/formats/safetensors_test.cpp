// Valid safetensors files: corner cases of the header, exact values at every alignment, large
// headers.
#include "formats/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "formats/safetensors_bytes.h"
#include "formats/temp_folder.h"
#include "fourfold/error.h"

using namespace fourfold;
using namespace fourfold::testing;

namespace {

SafetensorsFile opened(const TempFolder& folder, std::string_view header,
                       std::string_view data = {}, FileAccess access = FileAccess::automatic) {
  return SafetensorsFile::open(folder.write("f.safetensors", safetensors_bytes(header, data)),
                               access);
}

std::vector<float> floats(const SafetensorsFile& file, std::string_view name) {
  const TensorEntry* tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor->elements));
  file.read_f32(*tensor, values);
  return values;
}

}  // namespace

TEST_CASE("metadata may be absent, empty or all there is") {
  const TempFolder folder;
  CHECK(opened(folder, "{}").tensors().empty());
  CHECK(opened(folder, "{\"__metadata__\":{}}").metadata().empty());
  const auto file = opened(folder, "{\"__metadata__\":{\"b\":\"\\u00e9\",\"a\":\"\"}}      ");
  CHECK(file.tensors().empty());
  CHECK(file.metadata() == std::map<std::string, std::string>{{"a", ""}, {"b", "\xC3\xA9"}});
}

TEST_CASE("scalars, empty tensors and nested white space are legal") {
  const TempFolder folder;
  const float value = -2.5F;
  const auto file = opened(folder,
                           "{\"z\" : " + entry("F32", "[ 0 , 3 ]", 4, 4) +
                               ",\n\t\"s\":" + entry("F32", "[]", 0, 4) +
                               ",\"e\":" + entry("F4", "[0]", 0, 0) + "}",
                           bytes_of(value));
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "e");
  CHECK(file.tensors()[1].name == "s");
  CHECK(file.tensors()[2].name == "z");
  CHECK(file.find("s")->shape.empty());
  CHECK(file.find("s")->elements == 1);
  CHECK(floats(file, "s") == std::vector<float>{value});
  CHECK(file.find("z")->shape == std::vector<std::uint64_t>{0, 3});
  CHECK(floats(file, "z").empty());
  CHECK(file.find("absent") == nullptr);
}

TEST_CASE("values are exact wherever the data starts") {
  const TempFolder folder;
  const std::array<float, 3> wide{1.0F, -0.15625F, 3.0e38F};
  std::string data = "odd";
  data += std::string("\x80\x3F\x40\xC0\x00\x7F", 6);  // bf16: 1, -3, 2^127
  for (const float value : wide) data += bytes_of(value);
  data += std::string("\x00\x3C\xFF\x7B\x01\x00", 6);  // f16: 1, 65504, 2^-24
  const std::string header =
      "{\"u\":" + entry("U8", "[3]", 0, 3) + ",\"b\":" + entry("BF16", "[3]", 3, 9) +
      ",\"f\":" + entry("F32", "[3]", 9, 21) + ",\"h\":" + entry("F16", "[3]", 21, 27) + "}";
  for (std::size_t padding = 0; padding < 8; ++padding)
    for (const FileAccess access : {FileAccess::mmap, FileAccess::pread}) {
      const auto file = opened(folder, header + std::string(padding, ' '), data, access);
      CHECK(floats(file, "b") == std::vector<float>{1.0F, -3.0F, 0x1p127F});
      CHECK(floats(file, "f") == std::vector<float>(wide.begin(), wide.end()));
      CHECK(floats(file, "h") == std::vector<float>{1.0F, 65504.0F, 0x1p-24F});
      std::array<std::byte, 3> raw{};
      file.read(*file.find("u"), raw);
      CHECK(raw == std::array<std::byte, 3>{std::byte{'o'}, std::byte{'d'}, std::byte{'d'}});
    }
}

TEST_CASE("a tensor longer than one reading step keeps its order") {
  const TempFolder folder;
  constexpr std::size_t kCount = 20011;
  std::string data;
  for (std::size_t i = 0; i < kCount; ++i)
    data += bytes_of(static_cast<std::uint16_t>(0x3C00U + i % 1021U));
  const auto file = opened(folder, "{\"t\":" + entry("F16", "[20011]", 0, 2 * kCount) + "}", data,
                           FileAccess::pread);
  const std::vector<float> values = floats(file, "t");
  bool same = true;
  for (std::size_t i = 0; i < kCount; ++i)
    same = same && values[i] == 1.0F + static_cast<float>(i % 1021) / 1024.0F;
  CHECK(same);
}

TEST_CASE("every dtype of the format opens; those without a float form say so") {
  const TempFolder folder;
  struct Row {
    const char* name;
    unsigned bits;
  };
  constexpr std::array<Row, 22> kRows{
      {{"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"U16", 16},        {"I16", 16},
       {"U32", 32},    {"I32", 32},    {"U64", 64},        {"I64", 64},        {"F16", 16},
       {"BF16", 16},   {"F32", 32},    {"F64", 64},        {"C64", 64},        {"F8_E4M3", 8},
       {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
       {"F6_E3M2", 6}, {"F4", 4}}};
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const std::size_t bytes = 4 * row.bits / 8;
    const auto file = opened(folder, "{\"t\":" + entry(row.name, "[2,2]", 0, bytes) + "}",
                             std::string(bytes, '\0'));
    const TensorEntry& tensor = file.tensors().at(0);
    CHECK(dtype_name(tensor.dtype) == row.name);
    CHECK(tensor.end - tensor.begin == bytes);
    std::vector<float> values(4, -1.0F);
    const std::string_view name = row.name;
    if (name == "F32" || name == "F16" || name == "BF16") {
      file.read_f32(tensor, values);
      CHECK(values == std::vector<float>(4, 0.0F));
      continue;
    }
    try {
      file.read_f32(tensor, values);
      FAIL("read as float");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::unsupported);
      CHECK(error.tensor == "t");
      CHECK(std::string_view(error.what()).find(row.name) != std::string_view::npos);
    }
  }
}

TEST_CASE("a buffer of the wrong size is refused") {
  const TempFolder folder;
  const auto file = opened(folder, "{\"t\":" + entry("F32", "[1]", 0, 4) + "}", "abcd");
  std::array<float, 2> values{};
  std::array<std::byte, 3> raw{};
  for (const bool widen : {true, false}) {
    try {
      if (widen)
        file.read_f32(file.tensors()[0], values);
      else
        file.read(file.tensors()[0], raw);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::shape_mismatch);
    }
  }
}

TEST_CASE("a file that shrinks after open gives an io error") {
  const TempFolder folder;
  for (const FileAccess access : {FileAccess::mmap, FileAccess::pread}) {
    const auto file =
        opened(folder, "{\"t\":" + entry("F32", "[2]", 0, 8) + "}", "abcdefgh", access);
    std::filesystem::resize_file(file.path(), 40);
    std::array<float, 2> values{};
    try {
      file.read_f32(file.tensors()[0], values);
      FAIL("read beyond the end");
    } catch (const Error& error) {
      CHECK(error.code == ErrorCode::io);
    }
  }
}

TEST_CASE("a hundred thousand tensors open quickly, in any order of names") {
  const TempFolder folder;
  std::string header = "{";
  constexpr std::uint64_t kCount = 100'000;
  // 7919 is prime to the count, so every number comes once, in a mixed order.
  for (std::uint64_t i = 0; i < kCount; ++i)
    header += (i == 0 ? "\"" : ",\"") + std::string("layer.") +
              std::to_string((i * 7919) % kCount) + ".weight\":" + entry("U8", "[1]", i, i + 1);
  const std::string path =
      folder.write("many.safetensors", safetensors_bytes(header + "}", std::string(kCount, 'x')));
  const auto start = std::chrono::steady_clock::now();
  const auto file = SafetensorsFile::open(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(file.tensors().size() == kCount);
  CHECK(file.find("layer.7919.weight")->begin == file.tensors()[1].begin);
  // The limit is 0.5 s on an idle machine; the rest is room for sanitizers and busy neighbours.
  CHECK(seconds.count() < 5.0);
  MESSAGE("seconds: " << seconds.count());
}
