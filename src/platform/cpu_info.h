// What `info` and reports say of the CPU: its name and cache sizes, as the system tells them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold {

struct CacheInfo {
  int level = 0;
  std::string type;         // "Data", "Unified"; instruction caches are left out
  std::uint64_t bytes = 0;  // of one instance
};

struct CpuInfo {
  std::string name;  // "unknown CPU" when the system does not say
  std::vector<CacheInfo> caches;
};

CpuInfo read_cpu_info();

}  // namespace fourfold
