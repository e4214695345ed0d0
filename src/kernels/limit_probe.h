// The machine's limits, measured where and when a report needs them: multiply-add peak and read
// rate of the pool.
#pragma once

#include <cstddef>

#include "fourfold/dtype.h"
#include "platform/thread_pool.h"

namespace fourfold {

// Billions of floating-point operations per second of the fastest multiply-add of the instruction
// set in use for weights of that type, on all threads of the pool: the median of several short
// runs.
double measure_peak_gflops(ThreadPool& pool, Dtype dtype);

// GB/s (10^9 bytes) at which the pool reads a buffer of that size over and over, each thread its
// own part: the median of several rounds. Throws std::bad_alloc.
double measure_read_gbs(ThreadPool& pool, std::size_t bytes);

}  // namespace fourfold
