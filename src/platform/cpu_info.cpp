#include "platform/cpu_info.h"

#include <cstdlib>
#include <fstream>

namespace fourfold {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32K", "1024K", "32M"
std::uint64_t parse_size(const std::string& text) {
  char* unit = nullptr;
  const std::uint64_t number = std::strtoull(text.c_str(), &unit, 10);
  return *unit == 'K' ? number << 10 : *unit == 'M' ? number << 20 : number;
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info{"unknown CPU", {}};
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) info.name = line.substr(colon + 2);
    break;
  }
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    const std::string type = first_line(folder + "/type");
    if (type.empty() || type == "Instruction") continue;
    info.caches.push_back({std::atoi(first_line(folder + "/level").c_str()), type,
                           parse_size(first_line(folder + "/size"))});
  }
  return info;
}

}  // namespace fourfold
