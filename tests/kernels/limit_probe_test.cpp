// The probes of the machine's limits: they count their own work and read all that they are given.
#include "kernels/limit_probe.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernels/dispatch.h"

namespace fourfold {
namespace {

TEST_CASE("the peak probe reports work in proportion to its rounds, and its sums stay finite") {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    const GemmKernels& gemm = find_kernels(name)->gemm;
    for (const PeakProbe probe : {gemm.peak_probe_f32, gemm.peak_probe_bf16}) {
      float sink = NAN;
      const double work = probe(1000, &sink);
      CHECK(work > 1000);
      CHECK(std::isfinite(sink));
      CHECK(probe(3000, &sink) == 3 * work);
      CHECK(std::isfinite(sink));
    }
  }
}

TEST_CASE("the read probe depends on every float") {
  for (const std::string& name : isa_report().detected) {
    CAPTURE(name);
    const auto probe = find_kernels(name)->gemm.read_probe;
    std::vector<float> data(512, 1.0F);
    const float all_ones = probe(data.data(), data.size());
    std::size_t unread = 0;
    for (float& value : data) {
      value = 3.0F;
      unread += probe(data.data(), data.size()) == all_ones;
      value = 1.0F;
    }
    CHECK(unread == 0);
  }
}

TEST_CASE("measured limits are finite and above zero") {
  ThreadPool pool(2, {});
  const double peak = measure_peak_gflops(pool, Dtype::f32), rate = measure_read_gbs(pool, 1 << 20);
  CHECK(std::isfinite(peak));
  CHECK(peak > 0.01);
  CHECK(std::isfinite(rate));
  CHECK(rate > 0.01);
}

TEST_CASE("a buffer smaller than one step per thread is still read") {
  ThreadPool pool(3, {});
  CHECK(measure_read_gbs(pool, 1) > 0);
}

}  // namespace
}  // namespace fourfold
