#include "kernels/limit_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/dispatch.h"
#include "platform/caller_scope.h"

namespace fourfold {
namespace {

constexpr int kRuns = 9;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

struct alignas(64) Slot {
  double work = 0;
  float sink = 0;
};

}  // namespace

double measure_peak_gflops(ThreadPool& pool, Dtype dtype) {
  const CallerScope scope(pool.caller_cpu());
  const GemmKernels& gemm = kernels().gemm;
  const auto probe = dtype == Dtype::f32 ? gemm.peak_probe_f32 : gemm.peak_probe_bf16;
  std::vector<Slot> slots(pool.threads());
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel([&](unsigned thread, unsigned) {
      slots[thread].work = probe(400'000, &slots[thread].sink);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    double work = 0;
    for (const auto& slot : slots) work += slot.work;
    rates.push_back(work / time.count() / 1e9);
  }
  return median(std::move(rates));
}

double measure_read_gbs(ThreadPool& pool, std::size_t bytes) {
  const CallerScope scope(pool.caller_cpu());
  constexpr std::size_t kGrain = 256;  // floats; what read_probe takes
  const std::size_t grains = std::max<std::size_t>(pool.threads(), bytes / sizeof(float) / kGrain);
  AlignedBuffer<float> buffer(grains * kGrain);
  std::vector<Slot> slots(pool.threads());
  const auto part = [&](unsigned thread, unsigned threads, auto use) {
    const std::size_t first = grains * thread / threads, last = grains * (thread + 1) / threads;
    use(buffer.data() + first * kGrain, (last - first) * kGrain);
  };
  // Each thread touches its own part first, so that the pages are where the reader is.
  pool.parallel([&](unsigned thread, unsigned threads) {
    part(thread, threads, [](float* data, std::size_t n) { std::fill_n(data, n, 1.0F); });
  });
  const auto probe = kernels().gemm.read_probe;
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel([&](unsigned thread, unsigned threads) {
      part(thread, threads,
           [&](const float* data, std::size_t n) { slots[thread].sink += probe(data, n); });
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    rates.push_back(static_cast<double>(grains * kGrain * sizeof(float)) / time.count() / 1e9);
  }
  return median(std::move(rates));
}

}  // namespace fourfold
