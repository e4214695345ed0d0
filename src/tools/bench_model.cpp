// The whole-model row of `bench`: fixed random token ids, full sequences, last hidden state.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>

#include "base/check.h"
#include "models/bert.h"
#include "platform/caller_scope.h"
#include "platform/stage_clock.h"
#include "platform/thread_pool.h"
#include "tools/bench_activation.h"
#include "tools/bench_encoder_reference.h"
#include "tools/bench_work.h"
#include "tools/model_place.h"

namespace fourfold {
namespace {

constexpr std::size_t kClockedPasses = 5;

class ModelWork : public BenchWork {
 public:
  ModelWork(const BenchOptions& options, ModelPlace place, const ModelConfig& config,
            const SafetensorsFile& file, Workspace& workspace)
      : options_(options),
        place_(std::move(place)),
        workspace_(workspace),
        encoder_(BertEncoder::load(file, config, options.dtype)),
        lengths_(options.batch, options.seq_len),
        ids_(options.batch * options.seq_len),
        hidden_(ids_.size() * config.d_model) {
    std::mt19937_64 source(1);
    for (std::int32_t& id : ids_) id = static_cast<std::int32_t>(source() % config.vocab_size);
    first_sequence_ = encode64(file, config, std::span(ids_).first(options.seq_len), workspace);
  }

  std::string write_case(BenchFolder& folder) override {
    folder.write("ids.bin", ids_);
    folder.write_text("model.txt", std::filesystem::absolute(place_.folder).string());
    return "kind=model dtype=" + std::string(dtype_name(options_.dtype)) +
           " batch=" + std::to_string(options_.batch) +
           " seq_len=" + std::to_string(options_.seq_len) +
           " backward=0 copies=1 isa=" + std::string(workspace_.runtime().isa());
  }
  void run(std::size_t passes) override {
    const CallerScope caller(workspace_.runtime().pool().caller_cpu());
    for (std::size_t pass = 0; pass < passes; ++pass) forward();
  }
  BenchOutputs our_outputs() override {
    forward();
    return [this](std::string_view) { return std::span<const float>(hidden_); };
  }
  // Sequences do not see each other, so the first one is the sample.
  BenchError error(const BenchOutputs& outputs) override {
    const std::span<const float> found = outputs("y");
    BenchError error;
    error.samples = first_sequence_.size();
    add_relative_error(
        first_sequence_, [&](std::size_t i) { return found[i]; }, error);
    return error;
  }

  std::size_t copies() const override { return 1; }
  std::uint64_t weight_bytes() const override { return encoder_.packed_bytes(); }
  BenchCost cost() const override {
    const ModelConfig& config = encoder_.config();
    const auto d = static_cast<double>(config.d_model), f = static_cast<double>(config.d_ff);
    const auto tokens = static_cast<double>(ids_.size());
    const double macs = 4 * d * d + 2 * d * f + 2 * d * static_cast<double>(options_.seq_len);
    return {2 * macs * tokens * static_cast<double>(config.n_layers),
            static_cast<double>(encoder_.packed_bytes()) + 2 * sizeof(float) * tokens * d};
  }
  void describe(BenchRow& row) const override {
    const ModelConfig& config = encoder_.config();
    row.kind = "model";
    row.activation = activation_name(config.activation);
    row.dtype = dtype_name(encoder_.dtype());
    row.d_model = config.d_model;
    row.d_ff = config.d_ff;
    row.tokens = ids_.size();
    row.batch = options_.batch;
    row.seq_len = options_.seq_len;
  }
  void add_details(BenchRow& row) override;

 private:
  void forward() {
    const std::size_t d = encoder_.config().d_model;
    encoder_.forward(ids_, lengths_, {hidden_.data(), ids_.size(), d}, workspace_);
  }

  BenchOptions options_;
  ModelPlace place_;
  Workspace& workspace_;
  BertEncoder encoder_;
  std::vector<std::size_t> lengths_;
  std::vector<std::int32_t> ids_;
  std::vector<float> hidden_;
  std::vector<double> first_sequence_;
};

// Stages of the pass of median time among a few; `other` is all that no stage covers.
void ModelWork::add_details(BenchRow& row) {
  const CallerScope caller(workspace_.runtime().pool().caller_cpu());
  struct Pass {
    double ms = 0;
    std::array<double, 5> stages{};
  };
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < kClockedPasses; ++i) {
    StageClock clock(encoder_.config().n_layers);
    workspace_.clock = &clock;
    const auto begin = StageClock::Clock::now();
    forward();
    Pass pass;
    pass.ms = std::chrono::duration<double, std::milli>(StageClock::Clock::now() - begin).count();
    workspace_.clock = nullptr;
    pass.stages[4] = pass.ms;
    for (const auto& layer : clock.seconds()) {
      std::size_t at = 0;
      for (const Stage stage : {Stage::expand, Stage::contract, Stage::attention, Stage::norm}) {
        const double ms = layer[static_cast<std::size_t>(stage)] * 1e3;
        pass.stages[at++] += ms;
        pass.stages[4] -= ms;
      }
    }
    passes.push_back(pass);
  }
  std::sort(passes.begin(), passes.end(), [](const Pass& a, const Pass& b) { return a.ms < b.ms; });
  row.stages_ms = passes[passes.size() / 2].stages;
}

}  // namespace

std::unique_ptr<BenchWork> make_model_work(const BenchOptions& options, Workspace& workspace) {
  ModelPlace place = find_model(options.model);
  FOURFOLD_CHECK(!place.folder.empty(), unsupported,
                 place.weights +
                     ": there is no config.json beside the file; give the folder of a "
                     "Hugging Face model");
  const ModelConfig config = read_model_config(place.folder);
  FOURFOLD_CHECK(options.seq_len <= config.max_positions, invalid_argument,
                 "[bench] seq_len is " + std::to_string(options.seq_len) + ", the model has " +
                     std::to_string(config.max_positions) + " positions");
  const SafetensorsFile file = SafetensorsFile::open(place.weights);
  return std::make_unique<ModelWork>(options, std::move(place), config, file, workspace);
}

}  // namespace fourfold
