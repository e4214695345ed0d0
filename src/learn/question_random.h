// The chances behind a quiz: splitmix64 (Steele et al. 2014), so that a seed means the same
// questions on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fourfold {

class QuestionRandom {
 public:
  explicit QuestionRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // From first to last, both included; the bias of the remainder is below 2^-50 for small ranges.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + next() % (last - first + 1);
  }
  int whole(int first, int last) {
    return first + static_cast<int>(between(0, static_cast<std::uint64_t>(last - first)));
  }
  bool coin() { return (next() & 1) != 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[between(0, from.size() - 1)];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[between(0, i - 1)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace fourfold
