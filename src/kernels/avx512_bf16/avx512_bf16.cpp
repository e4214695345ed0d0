// Products of bf16 for AVX-512 with BF16; all else is what AVX-512 has. One table, the only symbol
// of the object.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/kernel_table.h"

namespace fourfold {
namespace {

#include "kernels/generic/transpose_square.inl.h"
//
#include "kernels/avx512/turn_8x16.inl.h"
//
#include "kernels/avx512/vec.h"
//
#include "kernels/generic/unroll.inl.h"
//
#include "kernels/generic/sums.inl.h"
//
#include "kernels/avx512_bf16/terms_dot.h"
//
#include "kernels/generic/gemm_panel.inl.h"
//
#include "kernels/generic/listed.inl.h"
//
#include "kernels/generic/attention_exp.inl.h"
//
#include "kernels/generic/attention_tiles.inl.h"
//
#include "kernels/avx512_bf16/attention_dot.h"

struct Tile {
  static constexpr std::size_t kRows = 4;
  static constexpr std::size_t vecs(std::size_t) { return 4; }
};

void panel_bf16(const void* a, std::size_t lda, const std::uint16_t* panel, const void* next,
                float* c, std::size_t rows, std::size_t k, bool add) {
  gemm_units<VecF32, TermsDot, Tile>(static_cast<const std::uint32_t*>(a), lda / 2,
                                     reinterpret_cast<const std::uint32_t*>(panel), next, c, rows,
                                     (k + 1) / 2, add);
}

void listed_bf16(const void* a, std::size_t lda, const std::uint32_t* index, std::size_t count,
                 const std::uint16_t* panel, float* c, std::size_t rows) {
  listed_units<VecF32, TermsDot, Tile>(static_cast<const std::uint32_t*>(a), lda / 2, index, count,
                                       reinterpret_cast<const std::uint32_t*>(panel), c, rows);
}

void features_bf16(const void* a, std::size_t lda, const float* const* features,
                   const float* const* next, std::size_t k, float* c, std::size_t rows) {
  feature_units<VecF32, TermsDot>(static_cast<const std::uint32_t*>(a), lda / 2, features, next,
                                  (k + 1) / 2, c, rows);
}

// 24 independent chains: 12 would be limited by the latency.
double peak_probe_bf16(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = 24;
  using Chains = std::make_index_sequence<kChains>;
  VecF32 acc[kChains];
  unroll([&](auto i) { acc[i] = VecF32::set(static_cast<float>(i)); }, Chains{});
  const VecF32 x = opaque(VecF32::set(1.0F)), y = opaque(VecF32::set(0.5F));
  for (std::size_t round = 0; round < rounds; ++round)
    unroll([&](auto i) { acc[i] = TermsDot::dot(acc[i], x, y); }, Chains{});
  VecF32 all = acc[0];
  unroll([&](auto i) { all = all + acc[i]; }, Chains{});
  *sink = sum(all);
  return 4.0 * static_cast<double>(rounds * kChains * VecF32::kLanes);
}

}  // namespace

constinit const Bf16Products kAvx512Bf16Products = {panel_bf16, listed_bf16, features_bf16,
                                                    peak_probe_bf16, attention_dot_kernels()};

}  // namespace fourfold
