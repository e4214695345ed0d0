#include "fourfold/runtime.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "fourfold/error.h"
#include "kernels/dispatch.h"
#include "platform/cpu_budget.h"
#include "platform/thread_pool.h"

namespace fourfold {
namespace {

constexpr unsigned kMostThreads = 1024;

std::optional<unsigned> threads_from_environment() {
  const char* text = std::getenv("FOURFOLD_NUM_THREADS");
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const unsigned long count = std::strtoul(text, &end, 10);
  if (std::isdigit(static_cast<unsigned char>(*text)) == 0 || *end != '\0' || count == 0 ||
      count > kMostThreads)
    throw Error(ErrorCode::invalid_argument,
                "FOURFOLD_NUM_THREADS is \"" + std::string(text).substr(0, 64) +
                    "\"; expected a whole number from 1 to " + std::to_string(kMostThreads));
  return static_cast<unsigned>(count);
}

}  // namespace

Runtime::Runtime(Threads threads) {
  (void)kernels();
  if (threads.count > kMostThreads)
    throw Error(ErrorCode::invalid_argument, "asked for " + std::to_string(threads.count) +
                                                 " threads; at most " +
                                                 std::to_string(kMostThreads));
  CpuBudget budget = read_cpu_budget();
  unsigned count = budget.threads;
  reason_ = budget.reason;
  if (threads.count > 0) {
    count = threads.count;
    reason_ = "asked for";
  } else if (const auto asked = threads_from_environment()) {
    count = *asked;
    reason_ = "FOURFOLD_NUM_THREADS";
  }
  pool_ = std::make_unique<ThreadPool>(count,
                                       threads.pin ? std::move(budget.cpus) : std::vector<int>{});
}

Runtime::~Runtime() = default;

std::string_view Runtime::isa() const { return kernels().name; }
unsigned Runtime::threads() const { return pool_->threads(); }
const std::string& Runtime::threads_reason() const { return reason_; }
std::vector<ThreadTime> Runtime::thread_times() const { return pool_->times(); }
void Runtime::reset_thread_times() { pool_->reset_times(); }

// Blocks never move, so pointers stay good while the workspace grows.
struct Workspace::Blocks {
  std::vector<AlignedBuffer<float>> list;
  std::size_t block = 0, used = 0;
  std::vector<std::pair<const void*, std::shared_ptr<void>>> kept;
};

Workspace::Workspace(Runtime& runtime) : runtime_(&runtime), blocks_(std::make_unique<Blocks>()) {}
Workspace::~Workspace() = default;

float* Workspace::take(std::size_t count) {
  constexpr std::size_t kLine = 16, kSmallest = std::size_t{1} << 16;  // floats
  auto& list = blocks_->list;
  std::size_t &block = blocks_->block, &used = blocks_->used;
  if (count > SIZE_MAX / sizeof(float) - kLine) throw std::bad_alloc();
  count = (count + kLine - 1) / kLine * kLine;
  while (block < list.size() && list[block].size() - used < count) {
    ++block;
    used = 0;
  }
  if (block == list.size()) {
    const std::size_t previous = list.empty() ? 0 : list.back().size();
    list.emplace_back(std::max({count, kSmallest, previous + previous / 2}));
  }
  float* first = list[block].data() + used;
  used += count;
  return first;
}

std::shared_ptr<void>& Workspace::kept(const void* key) {
  for (auto& [owner, value] : blocks_->kept)
    if (owner == key) return value;
  return blocks_->kept.emplace_back(key, nullptr).second;
}

ScratchScope::ScratchScope(Workspace& workspace)
    : workspace_(workspace), block_(workspace.blocks_->block), used_(workspace.blocks_->used) {}

ScratchScope::~ScratchScope() {
  workspace_.blocks_->block = block_;
  workspace_.blocks_->used = used_;
}

}  // namespace fourfold
