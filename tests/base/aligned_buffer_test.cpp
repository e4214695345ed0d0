// AlignedBuffer: 64-byte boundaries, empty buffers, and sizes that cannot be had.
#include "base/aligned_buffer.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

namespace fourfold {
namespace {

TEST_CASE("storage starts on a 64-byte boundary and holds every element") {
  for (const std::size_t count : {1U, 2U, 3U, 15U, 16U, 17U, 1009U}) {
    CAPTURE(count);
    AlignedBuffer<float> buffer(count);
    REQUIRE(buffer.data() != nullptr);
    CHECK(buffer.size() == count);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    for (std::size_t i = 0; i < count; ++i) buffer.data()[i] = static_cast<float>(i) + 0.5F;
    for (std::size_t i = 0; i < count; ++i) CHECK(buffer.data()[i] == static_cast<float>(i) + 0.5F);
  }
}

TEST_CASE("an empty buffer has size 0") {
  CHECK(AlignedBuffer<float>().size() == 0);
  CHECK(AlignedBuffer<float>(0).size() == 0);
}

TEST_CASE("moving hands the storage over") {
  AlignedBuffer<int> first(7);
  first.data()[6] = 31;
  const int* storage = first.data();
  const AlignedBuffer<int> second = std::move(first);
  CHECK(second.data() == storage);
  CHECK(second.data()[6] == 31);
}

TEST_CASE("a byte count that does not fit in size_t is bad_alloc, not a small buffer") {
  const std::size_t most = SIZE_MAX;
  CHECK_THROWS_AS(AlignedBuffer<float>{most}, std::bad_alloc);
  CHECK_THROWS_AS(AlignedBuffer<float>{most / sizeof(float)}, std::bad_alloc);
  CHECK_THROWS_AS(AlignedBuffer<float>{most / sizeof(float) + 2}, std::bad_alloc);
}

}  // namespace
}  // namespace fourfold
