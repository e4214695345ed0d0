#include "platform/cpu_budget.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fourfold {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const double q = std::strtod(quota.c_str(), nullptr), p = std::strtod(period.c_str(), nullptr);
  if (!(q > 0 && p > 0)) return std::nullopt;  // "max" and -1 mean: no quota
  return q / p;
}

std::optional<double> quota_v2(const std::string& folder) {
  std::istringstream text(read_text(folder + "/cpu.max"));
  std::string quota, period;
  text >> quota >> period;
  return ratio(quota, period);
}

std::optional<double> quota_v1(const std::string& folder) {
  return ratio(read_text(folder + "/cpu.cfs_quota_us"), read_text(folder + "/cpu.cfs_period_us"));
}

// The tightest quota from the group up to the root: a parent's quota binds its children.
template <class Read>
std::optional<double> tightest(const std::string& root, std::string group, Read read) {
  std::optional<double> least;
  while (true) {
    if (const auto quota = read(root + group))
      least = std::min(quota.value(), least.value_or(*quota));
    const auto slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.resize(slash);
  }
}

bool names_cpu_controller(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');)
    if (one == "cpu") return true;
  return false;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const std::string& proc_cgroup, const std::string& root) {
  std::optional<double> least;
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {  // hierarchy:controllers:/group
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    std::optional<double> quota;
    if (controllers.empty()) {
      quota = tightest(root, group, quota_v2);
    } else if (names_cpu_controller(controllers)) {
      quota = tightest(root + "/" + controllers, group, quota_v1);
      if (!quota) quota = tightest(root + "/cpu", group, quota_v1);
    }
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

CpuBudget make_cpu_budget(std::vector<int> cpus, std::optional<double> quota) {
  CpuBudget budget;
  std::sort(cpus.begin(), cpus.end());
  const auto mask = std::max<unsigned>(1, static_cast<unsigned>(cpus.size()));
  budget.threads = mask;
  budget.reason = fmt::format("{} CPU{} in the affinity mask", mask, mask == 1 ? "" : "s");
  if (quota && *quota < mask) {
    budget.threads = std::max(1U, static_cast<unsigned>(*quota));
    budget.reason =
        fmt::format("cgroup quota of {:g} CPUs ({} in the affinity mask)", *quota, mask);
  }
  budget.cpus = std::move(cpus);
  return budget;
}

CpuBudget read_cpu_budget() {
  std::vector<int> cpus;
  // The kernel refuses a mask smaller than its own, so grow until it fits.
  for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(bits);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; read && cpu < bits; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (read) break;
  }
  return make_cpu_budget(std::move(cpus),
                         cgroup_cpu_quota(read_text("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

}  // namespace fourfold
