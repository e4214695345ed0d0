// Any bytes as a safetensors file: a refusal that names its rule, or a load whose tensors read the
// same both ways.
#include <cstring>
#include <vector>

#include "formats/safetensors.h"
#include "fourfold/error.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fourfold::testing::FuzzFile file(data, size);
  try {
    const auto mapped = fourfold::SafetensorsFile::open(file.path(), fourfold::FileAccess::mmap);
    const auto copied = fourfold::SafetensorsFile::open(file.path(), fourfold::FileAccess::pread);
    if (mapped.tensors().size() != copied.tensors().size()) std::abort();
    for (const auto& tensor : mapped.tensors()) {
      if (tensor.end > size || tensor.begin > tensor.end) std::abort();
      std::vector<std::byte> a(tensor.end - tensor.begin), b(a.size());
      mapped.read(tensor, a);
      copied.read(*copied.find(tensor.name), b);
      if (a != b || (!a.empty() && std::memcmp(a.data(), data + tensor.begin, a.size()) != 0))
        std::abort();
    }
  } catch (const fourfold::Error& error) {
    if (error.code == fourfold::ErrorCode::bad_file && error.rule.empty()) std::abort();
  }
  return 0;
}
