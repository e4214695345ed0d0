// trace: one vector through one feed-forward layer, every number kept.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/check.h"
#include "fourfold/tools.h"
#include "platform/caller_scope.h"
#include "platform/thread_pool.h"
#include "tools/model_place.h"

namespace fourfold {
namespace {

// Keeps what the layer computes inside.
class Recorder : public FfnObserver {
 public:
  void observe(const FfnSample& sample, Workspace&) override {
    pre_.assign(sample.pre.row(0).begin(), sample.pre.row(0).end());
    hidden_.assign(sample.hidden.row(0).begin(), sample.hidden.row(0).end());
  }
  const std::vector<float>& pre() const { return pre_; }
  const std::vector<float>& hidden() const { return hidden_; }

 private:
  std::vector<float> pre_, hidden_;
};

std::string number(float value) {
  return value < 0 ? fmt::format("({:g})", value) : fmt::format("{:g}", value);
}

// "y1 = 1 * 0.5 + 0 * 0.2 + ... + 0.1 = 1.3" for each row of weight: [out, in].
std::vector<std::string> product_workings(const char* name, ConstMatrix weight,
                                          std::span<const float> x, std::span<const float> bias,
                                          std::span<const float> result) {
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < weight.rows; ++row) {
    std::string line = fmt::format("{}{} =", name, row + 1);
    for (std::size_t i = 0; i < weight.cols; ++i)
      line +=
          fmt::format("{} {} * {}", i == 0 ? "" : " +", number(x[i]), number(weight.row(row)[i]));
    lines.push_back(line + fmt::format(" + {} = {:g}", number(bias[row]), result[row]));
  }
  return lines;
}

// Runs x: [d_model] through the layer and the norm behind it; weights only for the workings of
// small layers.
TraceReport run(std::string title, const DenseFfn& ffn, const LayerNorm& norm, std::vector<float> x,
                const DenseWeights* small, Workspace& workspace) {
  const std::size_t d = ffn.d_model(), f = ffn.d_ff();
  Recorder recorder;
  std::vector<float> y(d), sum(d), out(d);
  ffn.forward(ConstMatrix(x.data(), 1, d), Matrix(y.data(), 1, d), workspace, nullptr, &recorder);
  for (std::size_t i = 0; i < d; ++i) sum[i] = x[i] + y[i];
  norm.forward(ConstMatrix(sum.data(), 1, d), Matrix(out.data(), 1, d), workspace);

  TraceReport trace;
  trace.title = std::move(title);
  trace.activation = activation_name(ffn.activation());
  trace.d_model = d;
  trace.d_ff = f;
  trace.parameters = ffn.parameters();
  trace.macs = 2 * d * f;
  trace.steps.push_back(
      {"expand", "pre = up x + up_bias", d * f + f, d * f, f, recorder.pre(), {}});
  trace.steps.push_back({"activate",
                         fmt::format("hidden = {}(pre)", trace.activation),
                         0,
                         0,
                         f,
                         recorder.hidden(),
                         {}});
  trace.steps.push_back({"contract", "y = down hidden + down_bias", d * f + d, d * f, d, y, {}});
  trace.steps.push_back({"add", "x + y", 0, 0, d, sum, {}});
  trace.steps.push_back({"normalise", "LayerNorm(x + y)", 2 * d, 0, 0, out, {}});
  if (small != nullptr) {
    trace.steps[0].workings = product_workings("pre", std::get<ConstMatrix>(small->up), x,
                                               small->up_bias, recorder.pre());
    for (std::size_t i = 0; i < f; ++i)
      trace.steps[1].workings.push_back(fmt::format("hidden{} = {}({:g}) = {:g}", i + 1,
                                                    trace.activation, recorder.pre()[i],
                                                    recorder.hidden()[i]));
    trace.steps[2].workings = product_workings("y", std::get<ConstMatrix>(small->down),
                                               recorder.hidden(), small->down_bias, y);
    for (std::size_t i = 0; i < d; ++i)
      trace.steps[3].workings.push_back(
          fmt::format("{:g} + {} = {:g}", x[i], number(y[i]), sum[i]));
    double mean = 0, variance = 0;
    for (const float value : sum) mean += value / static_cast<double>(d);
    for (const float value : sum)
      variance += (value - mean) * (value - mean) / static_cast<double>(d);
    trace.steps[4].workings.push_back(fmt::format("mean = {:g}, variance = {:g}", mean, variance));
    for (std::size_t i = 0; i < d; ++i)
      trace.steps[4].workings.push_back(
          fmt::format("({:g} - {:g}) / sqrt({:g}) = {:g}", sum[i], mean, variance, out[i]));
  }
  trace.x = std::move(x);
  return trace;
}

}  // namespace

TraceReport trace_tiny_example(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  // up: [8, 4], down: [4, 8], as torch.nn.Linear stores them: row i of up is what hidden unit i
  // looks for.
  const std::vector<float> up{0.5F,  0.2F,  -0.1F, 0.3F, -0.3F, 0.4F,  0.6F,  -0.2F,
                              0.1F,  -0.5F, 0.3F,  0.6F, 0.7F,  0.3F,  -0.2F, -0.4F,
                              -0.6F, 0.8F,  0.4F,  0.1F, 0.2F,  -0.7F, 0.5F,  -0.5F,
                              -0.4F, 0.6F,  -0.8F, 0.9F, 0.3F,  -0.1F, 0.7F,  0.4F};
  const std::vector<float> up_bias{0.1F, -0.2F, 0.3F, -0.4F, 0.5F, -0.6F, 0.7F, -0.8F};
  const std::vector<float> down{0.2F,  0.5F,  -0.3F, 0.9F,  -0.1F, 0.4F,  0.1F,  0.6F,
                                -0.4F, 0.3F,  0.8F,  -0.6F, 0.2F,  0.5F,  -0.2F, 0.7F,
                                0.6F,  -0.2F, 0.4F,  0.1F,  0.7F,  -0.9F, 0.3F,  -0.8F,
                                0.1F,  0.7F,  -0.5F, 0.2F,  0.3F,  0.6F,  0.4F,  -0.3F};
  const std::vector<float> down_bias{0.1F, 0.2F, -0.1F, -0.2F};
  const DenseWeights weights{ConstMatrix(up.data(), 8, 4), ConstMatrix(down.data(), 4, 8), up_bias,
                             down_bias};
  const LayerNorm norm(std::vector<float>(4, 1.0F), std::vector<float>(4, 0.0F), 0.0F);
  TraceReport trace =
      run("Tiny example: 4 -> 8 -> 4 with ReLU", DenseFfn(weights, Activation::relu), norm,
          {1, 0, -1, 2}, &weights, workspace);
  trace.notes = {"The numbers fit on a page; docs/tiny_example.md says how they were chosen.",
                 "The norm has gamma 1, beta 0, eps 0."};
  return trace;
}

TraceReport trace_bert_base(Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  constexpr std::size_t d = 768, f = 3072;
  std::mt19937 generator(768);
  const auto uniform = [&](std::size_t count, float width) {
    std::vector<float> values(count);
    for (float& value : values)
      value = (static_cast<float>(generator() >> 8) * (1.0F / 8388608.0F) - 1.0F) * width;
    return values;
  };
  // Uniform with BERT's standard deviation of 0.02, and x with 1.
  const float root3 = std::sqrt(3.0F);
  const auto up = uniform(f * d, 0.02F * root3), down = uniform(d * f, 0.02F * root3);
  const auto x = uniform(d, root3);
  const std::vector<float> up_bias(f), down_bias(d);
  const DenseFfn ffn(
      {ConstMatrix(up.data(), f, d), ConstMatrix(down.data(), d, f), up_bias, down_bias},
      Activation::gelu_erf);
  const LayerNorm norm(std::vector<float>(d, 1.0F), std::vector<float>(d, 0.0F), 1e-12F);
  TraceReport trace = run("BERT-base: 768 -> 3072 -> 768 with GELU, then LayerNorm(x + y)", ffn,
                          norm, x, nullptr, workspace);
  trace.notes = {
      "Sizes are BERT-base's; weights and x are seeded random numbers (sd 0.02 and 1), biases 0.",
      "The norm has gamma 1, beta 0, eps 1e-12."};
  return trace;
}

TraceReport trace_model(const std::string& model_name, const TraceOptions& options,
                        Workspace& workspace) {
  const CallerScope caller(workspace.runtime().pool().caller_cpu());
  const LoadedEncoder model = load_encoder(model_name);
  const ModelConfig& config = model.encoder.config();
  FOURFOLD_CHECK(options.layer < config.n_layers, invalid_argument,
                 "layer is " + std::to_string(options.layer) + "; the model has layers 0 to " +
                     std::to_string(config.n_layers - 1));
  std::vector<std::int32_t> text = model.tokenizer.encode(options.text);
  text.resize(
      std::min<std::size_t>(text.size(), config.max_positions - model.tokenizer.added_tokens()));
  FOURFOLD_CHECK(options.token < text.size(), invalid_argument,
                 "token is " + std::to_string(options.token) + "; the text has " +
                     std::to_string(text.size()) + " tokens");
  const std::vector<std::int32_t> ids = model.tokenizer.with_added_tokens(text);
  const std::size_t lengths[] = {ids.size()}, row = options.token + 1;  // behind [CLS]

  std::vector<float> hidden_data(ids.size() * config.d_model);
  const Matrix hidden(hidden_data.data(), ids.size(), config.d_model);
  model.encoder.embed(ids, lengths, hidden, workspace);
  const auto& blocks = model.encoder.blocks();
  for (std::size_t i = 0; i < options.layer; ++i) blocks[i].forward(hidden, lengths, workspace);
  const EncoderBlock& block = blocks[options.layer];
  block.forward_attention(hidden, lengths, workspace);

  const auto x = hidden.row(row);
  TraceReport trace = run(
      fmt::format("Layer {} of {}: {} -> {} -> {} with {}", options.layer, model_name,
                  config.d_model, config.d_ff, config.d_model, activation_name(config.activation)),
      block.ffn(), block.ffn_norm(), {x.begin(), x.end()}, nullptr, workspace);
  trace.notes = {
      fmt::format("x is token {} of the text, \"{}\", behind the layer's attention and norm.",
                  options.token, model.tokenizer.piece(text[options.token]))};
  return trace;
}

}  // namespace fourfold
