// Counts how often a test executable asks for memory: allocation_count.cpp replaces operator new,
// and aligned_alloc, which workspaces use.
#pragma once

#include <cstddef>

namespace fourfold {

std::size_t allocations_so_far();

// How often work asks for memory, on any thread.
template <class Work>
std::size_t count_allocations(const Work& work) {
  const std::size_t before = allocations_so_far();
  work();
  return allocations_so_far() - before;
}

}  // namespace fourfold
