// A weight in the order in which the kernels read it: panels of 64 output features, see
// kernels/gemm_kernels.h. Stored in the type of the weight, float32 or bf16.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "fourfold/matrix.h"
#include "platform/thread_pool.h"

namespace fourfold {

class PackedWeight {
 public:
  PackedWeight() = default;
  // Copies weight: [out, in]. Throws std::bad_alloc.
  explicit PackedWeight(const Weight& weight);

  // The same values as a weight [in, out], for products with the transpose.
  PackedWeight transposed() const;
  // New values of the same shape; the type stays, float32 values are rounded to bf16. back, when
  // not null, is the transpose and gets them, too, from the same read.
  void repack(const Weight& weight, PackedWeight* back, ThreadPool& pool);
  void copy_to(Matrix weight) const;  // [out, in]

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  Dtype dtype() const { return dtype_; }
  bool empty() const { return out_ == 0; }
  std::size_t panels() const;
  // The panel, or for index = panels() the end of the last one.
  const void* panel(std::size_t index) const { return words_.data() + index * panel_words(); }
  std::size_t bytes() const { return words_.size() * sizeof(float); }
  bool is_finite() const { return finite_; }  // no value is NaN or infinite

 private:
  PackedWeight(std::size_t out, std::size_t in, Dtype dtype);
  std::size_t panel_words() const;
  float value(std::size_t n, std::size_t k) const;
  // The same block of 64 x 64 values in panels of the weight and of its transpose: features from n
  // on, inputs from k on; block: [n][k], what lies outside is 0. units: scratch.
  template <class T>
  void set_block(std::size_t n, std::size_t k, const T* block, float* units);
  template <class T>
  void set_block_of_transpose(std::size_t n, std::size_t k, const T* block, float* units);
  void store_rows(std::size_t panel, std::size_t k, const float* units, std::size_t rows);
  void get_block(std::size_t n, std::size_t k, float* block) const;
  template <class T>
  static bool pack_blocks(const Weight& weight, std::size_t first, PackedWeight& to,
                          PackedWeight* back);

  // Features first .. first + 63 into one panel of `to`, and into 64 k of every panel of its
  // transpose. Returns whether all values are finite.
  static bool pack_features(const Weight& weight, std::size_t first, PackedWeight& to,
                            PackedWeight* back);

  AlignedBuffer<float> words_;  // of 32 bits: a float, or two bf16
  std::size_t out_ = 0, in_ = 0;
  Dtype dtype_ = Dtype::f32;
  bool finite_ = true;
};

// One panel: [in, 64] from up to 64 rows of weight: [rows, in]. The rest of the 64 columns becomes
// 0.
void pack_panel(ConstMatrix weight, float* panel);

}  // namespace fourfold
