// Owning storage on 64-byte boundaries: one cache line, and one AVX-512 register.
#pragma once

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
    if (count > (std::numeric_limits<std::size_t>::max() - kAlignment) / sizeof(T))
      throw std::bad_alloc();
    // At least one line: pointers into a buffer without elements may be offset, too.
    const std::size_t lines = (count * sizeof(T) + kAlignment - 1) / kAlignment;
    const std::size_t bytes = (lines == 0 ? 1 : lines) * kAlignment;
    data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    if (!data_) throw std::bad_alloc();
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
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(T* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace fourfold
