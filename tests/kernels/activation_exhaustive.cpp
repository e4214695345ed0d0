// All 2^32 inputs through every activation and its derivative, against float64. Usage:
//   activation_exhaustive [instruction set | all] [activation...]
// The first instruction set is measured; the others must give the same bits. Takes hours for all.
#include <atomic>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "activation_error.h"
#include "kernels/dispatch.h"
#include "sample_values.h"

namespace fourfold {
namespace {

constexpr std::size_t kBlock = 1U << 16, kBlocks = 1U << 16;

// One of the 2^16 blocks of inputs that share their upper bits, and its results.
struct Block {
  std::vector<float> x = std::vector<float>(kBlock), y = x, d = x;

  void fill(std::size_t block) {
    for (std::size_t i = 0; i < kBlock; ++i)
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(block * kBlock + i));
  }
  void compute(const KernelTable& table, Activation kind) {
    const auto index = static_cast<std::size_t>(kind);
    table.activations.forward[index](x.data(), y.data(), kBlock);
    d.assign(kBlock, 1.0F);
    table.activations.backward[index](x.data(), d.data(), d.data(), kBlock);
  }
};

struct Outcome {
  ActivationError error;                 // of the first table
  std::vector<std::uint64_t> different;  // per other table: results with other bits
};

void run_blocks(const std::vector<const KernelTable*>& tables, Activation kind,
                std::atomic<std::size_t>& next, Outcome& outcome, std::mutex& mutex) {
  Block first, other;
  Outcome mine{{}, std::vector<std::uint64_t>(tables.size() - 1)};
  for (std::size_t block = next++; block < kBlocks; block = next++) {
    first.fill(block);
    first.compute(*tables[0], kind);
    mine.error.add(activation_error(kind, first.x, first.y, first.d));
    for (std::size_t t = 1; t < tables.size(); ++t) {
      other.x = first.x;
      other.compute(*tables[t], kind);
      for (std::size_t i = 0; i < kBlock; ++i)
        mine.different[t - 1] +=
            !same_value(first.y[i], other.y[i]) || !same_value(first.d[i], other.d[i]);
    }
  }
  const std::lock_guard lock(mutex);
  outcome.error.add(mine.error);
  for (std::size_t t = 1; t < tables.size(); ++t) outcome.different[t - 1] += mine.different[t - 1];
}

Outcome run_all(const std::vector<const KernelTable*>& tables, Activation kind) {
  Outcome outcome{{}, std::vector<std::uint64_t>(tables.size() - 1)};
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] { run_blocks(tables, kind, next, outcome, mutex); });
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

int run(const std::vector<std::string>& arguments) {
  std::vector<const KernelTable*> tables;
  const std::string isa = arguments.empty() ? "all" : arguments[0];
  for (const std::string& name : isa_report().detected)
    if (isa == "all" || isa == name) tables.push_back(find_kernels(name));
  if (tables.empty()) {
    std::fprintf(stderr, "instruction set %s is not here\n", isa.c_str());
    return 2;
  }
  std::vector<Activation> kinds(std::begin(kAllActivations), std::end(kAllActivations));
  if (arguments.size() > 1) kinds.clear();
  for (std::size_t i = 1; i < arguments.size(); ++i)
    kinds.push_back(parse_activation(arguments[i]));

  int passed = 0, failed = 0;
  const auto count = [&](bool good) {
    ++(good ? passed : failed);
    return good ? "ok    " : "FAILED";
  };
  for (const Activation kind : kinds) {
    const Outcome outcome = run_all(tables, kind);
    const ActivationError& error = outcome.error;
    const std::string name(activation_name(kind));
    std::printf(
        "%s %-7s %-11s max %.4f ULP at %.9g, subnormal %.3f steps at %.9g, derivative %.4f "
        "eps at %.9g\n",
        count(error.passes()), tables[0]->name, name.c_str(), error.ulp.size,
        static_cast<double>(error.ulp.at), error.subnormal.size,
        static_cast<double>(error.subnormal.at), error.slope.size,
        static_cast<double>(error.slope.at));
    for (std::size_t t = 1; t < tables.size(); ++t)
      std::printf("%s %-7s %-11s %" PRIu64 " inputs give other bits than %s\n",
                  count(outcome.different[t - 1] == 0), tables[t]->name, name.c_str(),
                  outcome.different[t - 1], tables[0]->name);
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fourfold

int main(int argc, char** argv) {
  try {
    return fourfold::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
