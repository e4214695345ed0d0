// Owning storage on 64-byte boundaries: one cache line, and one AVX-512 register. Large storage
// lies on large pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace fourfold {

template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Uninitialised. Throws std::bad_alloc when count * sizeof(T) cannot be had.
  explicit AlignedBuffer(std::size_t count) : size_(count) {
    if (count > (std::numeric_limits<std::size_t>::max() - kLargePage) / sizeof(T))
      throw std::bad_alloc();
    // At least one line: pointers into a buffer without elements may be offset, too.
    const std::size_t needed = count == 0 ? 1 : count * sizeof(T);
    const std::size_t grain = needed < 2 * kLargePage ? kAlignment : kLargePage;
    const std::size_t bytes = (needed + grain - 1) / grain * grain;
    data_.reset(static_cast<T*>(std::aligned_alloc(grain, bytes)));
    if (!data_) throw std::bad_alloc();
    // Fewer address translations; a refusal costs speed alone.
    if (grain == kLargePage) (void)madvise(data_.get(), bytes, MADV_HUGEPAGE);
  }

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64, kLargePage = std::size_t{2} << 20;
  struct Free {
    void operator()(T* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace fourfold
