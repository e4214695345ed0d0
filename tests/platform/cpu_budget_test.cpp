// CpuBudget: quotas from made-up cgroup folders, the rounding rule, and the affinity of this
// process.
#include "platform/cpu_budget.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace fourfold {
namespace {

// A folder that looks like a mounted cgroup file system, removed at the end.
class CgroupFolder {
 public:
  CgroupFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cgroup_test_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
  }
  ~CgroupFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  CgroupFolder(const CgroupFolder&) = delete;
  CgroupFolder& operator=(const CgroupFolder&) = delete;

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

const std::vector<int> kEightCpus{0, 1, 2, 3, 4, 5, 6, 7};

TEST_CASE("cgroup v2: quota over period") {
  const CgroupFolder folder;
  folder.write("job/cpu.max", "200000 100000");
  const auto quota = cgroup_cpu_quota("0::/job\n", folder.root());
  REQUIRE(quota.has_value());
  CHECK(*quota == 2.0);
  CHECK(make_cpu_budget(kEightCpus, quota).threads == 2);
}

TEST_CASE("cgroup v2: half a CPU is one thread") {
  const CgroupFolder folder;
  folder.write("job/cpu.max", "50000 100000");
  const auto quota = cgroup_cpu_quota("0::/job\n", folder.root());
  REQUIRE(quota.has_value());
  CHECK(*quota == 0.5);
  CHECK(make_cpu_budget(kEightCpus, quota).threads == 1);
}

TEST_CASE("cgroup v2: max is no quota") {
  const CgroupFolder folder;
  folder.write("job/cpu.max", "max 100000");
  CHECK_FALSE(cgroup_cpu_quota("0::/job\n", folder.root()).has_value());
}

TEST_CASE("cgroup v2: the tightest of the group and its parents counts") {
  const CgroupFolder folder;
  folder.write("cpu.max", "900000 100000");
  folder.write("a/cpu.max", "300000 100000");
  folder.write("a/b/cpu.max", "max 100000");
  folder.write("a/b/c/cpu.max", "700000 100000");
  CHECK(cgroup_cpu_quota("0::/a/b/c\n", folder.root()).value_or(-1) == 3.0);
  CHECK(cgroup_cpu_quota("0::/\n", folder.root()).value_or(-1) == 9.0);
  folder.write("a/b/c/cpu.max", "150000 100000");
  CHECK(cgroup_cpu_quota("0::/a/b/c\n", folder.root()).value_or(-1) == 1.5);
}

TEST_CASE("cgroup v2: a group that is not mounted here falls back to the root's quota") {
  const CgroupFolder folder;
  folder.write("cpu.max", "400000 100000");
  CHECK(cgroup_cpu_quota("0::/container/17\n", folder.root()).value_or(-1) == 4.0);
}

TEST_CASE("cgroup v1: quota and period are two files of the cpu controller") {
  const CgroupFolder folder;
  folder.write("cpu,cpuacct/job/cpu.cfs_quota_us", "250000");
  folder.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  const std::string groups = "12:memory:/job\n4:cpu,cpuacct:/job\n2:cpuset:/\n";
  const auto quota = cgroup_cpu_quota(groups, folder.root());
  REQUIRE(quota.has_value());
  CHECK(*quota == 2.5);
  CHECK(make_cpu_budget(kEightCpus, quota).threads == 2);
}

TEST_CASE("cgroup v1: the controller may be mounted under the name cpu alone") {
  const CgroupFolder folder;
  folder.write("cpu/job/cpu.cfs_quota_us", "300000");
  folder.write("cpu/job/cpu.cfs_period_us", "100000");
  CHECK(cgroup_cpu_quota("3:cpu:/job\n", folder.root()).value_or(-1) == 3.0);
  CHECK(cgroup_cpu_quota("3:cpuacct,cpu:/job\n", folder.root()).value_or(-1) == 3.0);
}

TEST_CASE("cgroup v1: -1 is no quota, and other controllers do not count") {
  const CgroupFolder folder;
  folder.write("cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  folder.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  folder.write("cpuset/job/cpu.cfs_quota_us", "100000");
  folder.write("cpuset/job/cpu.cfs_period_us", "100000");
  const std::string groups = "4:cpu,cpuacct:/job\n2:cpuset:/job\n";
  CHECK_FALSE(cgroup_cpu_quota(groups, folder.root()).has_value());
}

TEST_CASE("cgroup: both versions at once, the tighter one counts") {
  const CgroupFolder folder;
  folder.write("cpu/job/cpu.cfs_quota_us", "300000");
  folder.write("cpu/job/cpu.cfs_period_us", "100000");
  folder.write("job/cpu.max", "200000 100000");
  CHECK(cgroup_cpu_quota("3:cpu:/job\n0::/job\n", folder.root()).value_or(-1) == 2.0);
}

TEST_CASE("cgroup: no files, no text, or nonsense in them is no quota") {
  const CgroupFolder folder;
  CHECK_FALSE(cgroup_cpu_quota("", folder.root()).has_value());
  CHECK_FALSE(cgroup_cpu_quota("0::/job\n", folder.root()).has_value());
  CHECK_FALSE(cgroup_cpu_quota("no colons here\n1:cpu\n::\n", folder.root()).has_value());
  for (const std::string text : {"", "soon", "100000", "0 100000", "100000 0", "-5 -7", "nan 3"}) {
    CAPTURE(text);
    folder.write("job/cpu.max", text);
    const auto quota = cgroup_cpu_quota("0::/job\n", folder.root());
    CHECK_FALSE(quota.has_value());
  }
}

TEST_CASE("a budget without a quota is the affinity mask") {
  const CpuBudget budget = make_cpu_budget({5, 2, 3}, std::nullopt);
  CHECK(budget.threads == 3);
  CHECK(budget.cpus == std::vector<int>{2, 3, 5});
  CHECK(budget.reason == "3 CPUs in the affinity mask");
  CHECK(make_cpu_budget({4}, std::nullopt).reason == "1 CPU in the affinity mask");
}

TEST_CASE("a quota below the mask is rounded down and named as the reason") {
  const CpuBudget budget = make_cpu_budget(kEightCpus, 2.75);
  CHECK(budget.threads == 2);
  CHECK(budget.cpus == kEightCpus);
  CHECK(budget.reason.find("cgroup quota of 2.75 CPUs") != std::string::npos);
  CHECK(budget.reason.find("8 in the affinity mask") != std::string::npos);
}

TEST_CASE("a quota above the mask changes nothing") {
  const CpuBudget budget = make_cpu_budget({0, 1}, 7.0);
  CHECK(budget.threads == 2);
  CHECK(budget.reason == "2 CPUs in the affinity mask");
  CHECK(make_cpu_budget({0, 1}, 1e30).threads == 2);
}

TEST_CASE("an unknown mask and a tiny quota still give one thread") {
  CHECK(make_cpu_budget({}, std::nullopt).threads == 1);
  CHECK(make_cpu_budget({}, 0.001).threads == 1);
  CHECK(make_cpu_budget(kEightCpus, 0.001).threads == 1);
}

TEST_CASE("a thread bound to one CPU has a budget of that CPU") {
  const CpuBudget before = read_cpu_budget();
  REQUIRE_FALSE(before.cpus.empty());
  CHECK(before.threads <= before.cpus.size());
  const int last = before.cpus.back();
  CpuBudget bound;
  bool moved = false;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    moved = sched_setaffinity(0, sizeof(one), &one) == 0;
    bound = read_cpu_budget();
  }).join();
  REQUIRE(moved);
  CHECK(bound.threads == 1);
  CHECK(bound.cpus == std::vector<int>{last});
  CHECK(read_cpu_budget().cpus == before.cpus);
}

}  // namespace
}  // namespace fourfold
