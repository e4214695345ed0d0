// Time per layer and stage of one forward pass. A Workspace without a clock costs one comparison
// per stage.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "fourfold/runtime.h"

namespace fourfold {

enum class Stage { expand, contract, router, gather, combine, attention, norm, other };
constexpr std::size_t kStages = 8;

class StageClock {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::array<double, kStages>;

  explicit StageClock(std::size_t layers) : seconds_(layers) {}

  void enter_layer(std::size_t layer) { layer_ = layer; }
  void add(Stage stage, Clock::duration time) {
    if (layer_ < seconds_.size())
      seconds_[layer_][static_cast<std::size_t>(stage)] +=
          std::chrono::duration<double>(time).count();
  }
  const std::vector<Seconds>& seconds() const { return seconds_; }

 private:
  std::vector<Seconds> seconds_;
  std::size_t layer_ = 0;
};

// Adds the time until its end to a stage of the workspace's clock.
class StageScope {
 public:
  StageScope(Workspace& workspace, Stage stage) : clock_(workspace.clock), stage_(stage) {
    if (clock_ != nullptr) begin_ = StageClock::Clock::now();
  }
  ~StageScope() {
    if (clock_ != nullptr) clock_->add(stage_, StageClock::Clock::now() - begin_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  StageClock* clock_;
  Stage stage_;
  StageClock::Clock::time_point begin_;
};

// The same inside a parallel region: its first thread adds the time between two calls of lap.
class StageLaps {
 public:
  StageLaps(const Workspace& workspace, unsigned thread)
      : clock_(thread == 0 ? workspace.clock : nullptr) {
    if (clock_ != nullptr) begin_ = StageClock::Clock::now();
  }
  void lap(Stage stage) {
    if (clock_ == nullptr) return;
    const auto now = StageClock::Clock::now();
    clock_->add(stage, now - begin_);
    begin_ = now;
  }

 private:
  StageClock* clock_;
  StageClock::Clock::time_point begin_;
};

}  // namespace fourfold
