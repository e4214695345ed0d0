// How many threads this process may use: its CPU affinity, cut by the cgroup quota (v1 and v2).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fourfold {

struct CpuBudget {
  unsigned threads = 1;
  std::vector<int> cpus;  // the CPUs of the affinity mask, ascending
  std::string reason;     // for people, for example "2 CPUs in the affinity mask"
};

// The quota in CPUs (1.5 = one and a half), the tightest of the group and its parents; empty
// without a quota. proc_cgroup is the text of /proc/self/cgroup, root the mount point of the cgroup
// file system.
std::optional<double> cgroup_cpu_quota(const std::string& proc_cgroup, const std::string& root);

// The budget from an affinity mask and a quota: at least 1, the quota rounded down.
CpuBudget make_cpu_budget(std::vector<int> cpus, std::optional<double> quota);

// The budget of this process now.
CpuBudget read_cpu_budget();

}  // namespace fourfold
