// Matrix product kernels of one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fourfold {

// Packed weights are panels of 64 output columns. A panel is a list of unit rows along k: 64 words
// of 32 bits, one per column, each with 1 float32 or 2 bf16 of consecutive k (the first in the
// lower half). Missing columns, and the odd last k of bf16, are 0.
constexpr std::size_t kPanel = 64;

// c: [rows, 64] = (add ? c : 0) + a: [rows, k] * panel: [k, 64]; one accumulator per element, k
// ascending. next: what will be read after this panel; it is fetched into the cache meanwhile and
// may be any address.
using GemmPanel = void (*)(const float* a, std::size_t lda, const float* panel, const void* next,
                           float* c, std::size_t rows, std::size_t k, bool add);
// The same with weights in bf16, given as their bits; sums are float32. Rows of a hold bf16 values
// in float32 words or, where reads_bf16_rows, in bf16; the odd last k is followed by a 0.
using GemmPanelBf16 = void (*)(const void* a, std::size_t lda, const std::uint16_t* panel,
                               const void* next, float* c, std::size_t rows, std::size_t k,
                               bool add);
// c: [rows, 64] = the sum of a[r, u] * panel[u, 0..64) over the unit rows u of index[0..count), in
// that order. index has kListAhead more entries, which are only fetched into the cache.
constexpr std::size_t kListAhead = 64;
using ListedPanel = void (*)(const float* a, std::size_t lda, const std::uint32_t* index,
                             std::size_t count, const float* panel, float* c, std::size_t rows);
using ListedPanelBf16 = void (*)(const void* a, std::size_t lda, const std::uint32_t* index,
                                 std::size_t count, const std::uint16_t* panel, float* c,
                                 std::size_t rows);
// c: [rows, 16] = a: [rows, k] * the transpose of 16 features. A feature is a row of words like
// those of a unit row, along k, with zeros up to a multiple of 16 words. next: the 16 features that
// will be read after these.
constexpr std::size_t kFeatures = 16, kFeaturesAhead = 64;  // words
using FeatureProduct = void (*)(const float* a, std::size_t lda, const float* const* features,
                                const float* const* next, std::size_t k, float* c,
                                std::size_t rows);
using FeatureProductBf16 = void (*)(const void* a, std::size_t lda, const float* const* features,
                                    const float* const* next, std::size_t k, float* c,
                                    std::size_t rows);
// to: [cols, rows] = from^T; from: [rows, cols]. Words of 32 bits.
using Transpose = void (*)(const float* from, std::size_t from_stride, std::size_t rows,
                           std::size_t cols, float* to, std::size_t to_stride);
// y: [rows, n] = nearest bf16 to x: [rows, n], ties to even, as words or as the bits of bf16.
using RoundRows = void (*)(const float* x, std::size_t ldx, float* y, std::size_t ldy,
                           std::size_t rows, std::size_t n);
using NarrowRows = void (*)(const float* x, std::size_t ldx, std::uint16_t* y, std::size_t ldy,
                            std::size_t rows, std::size_t n);
// One unit row of bf16 from two rows of k: y[i] = narrow(low[i]) | narrow(high[i]) << 16.
using PairRows = void (*)(const float* low, const float* high, std::uint32_t* y, std::size_t n);
// Bit i of the result: x[r, i] is neither 0 nor -0 in some row r; x: [rows, n], n <= 64.
using NonZeroColumns = std::uint64_t (*)(const float* x, std::size_t stride, std::size_t rows,
                                         std::size_t n);
// Independent multiply-adds in registers; returns how many floating-point operations were done.
using PeakProbe = double (*)(std::size_t rounds, float* sink);
// Reads n floats (a multiple of 256) and returns something that depends on all of them.
using ReadProbe = float (*)(const float* x, std::size_t n);

struct GemmKernels {
  GemmPanel panel_f32;
  ListedPanel listed_f32;
  FeatureProduct features_f32;
  GemmPanelBf16 panel_bf16;
  ListedPanelBf16 listed_bf16;
  FeatureProductBf16 features_bf16;
  bool reads_bf16_rows;
  PeakProbe peak_probe_f32, peak_probe_bf16;
  ReadProbe read_probe;
  Transpose transpose;
  RoundRows round_rows;
  NarrowRows narrow_rows;
  PairRows pair_rows;
  NonZeroColumns non_zero;
};

}  // namespace fourfold
