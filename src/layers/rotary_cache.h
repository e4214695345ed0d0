// The table of rotary positions of one layer, kept from call to call. Calls from several threads
// share it; a longer sequence replaces it by one of twice the positions, and who still reads the
// old one keeps it alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/rotary.h"

namespace fourfold {

class RotaryCache {
 public:
  struct Table {
    std::vector<float> values;
    std::size_t positions, width;

    ConstMatrix view() const { return {values.data(), positions, width}; }
  };

  // A table of at least so many positions; the options must be the same in every call.
  std::shared_ptr<const Table> get(const RotaryOptions& options, std::size_t head_dim,
                                   std::size_t positions, ThreadPool& pool) const {
    const std::lock_guard lock(mutex_);
    if (table_ == nullptr || table_->positions < positions) {
      const std::size_t width = rotary_width(options, head_dim);
      const std::size_t rows =
          std::max(positions, table_ == nullptr ? positions : 2 * table_->positions);
      auto table = std::make_shared<Table>(Table{std::vector<float>(rows * width), rows, width});
      fill_rotary_table(options, {table->values.data(), rows, width}, pool);
      table_ = std::move(table);
    }
    return table_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Table> table_;
};

}  // namespace fourfold
