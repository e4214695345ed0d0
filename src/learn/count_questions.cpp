// Questions whose answers are counts: parameters, multiply-adds, bytes, ratios.
#include <fmt/format.h>

#include <array>

#include "fourfold/ffn_counts.h"
#include "learn/quiz_question.h"
#include "report/number_text.h"

namespace fourfold {
namespace {

// What a question is about, in the words of ffn_counts.h.
struct FfnSize {
  std::uint64_t d_model = 0, d_ff = 0;
  bool gated = false, bias = false;
  std::uint64_t n_experts = 0, top_k = 0;  // 0 experts: no mixture

  FfnCounts counts() const {
    FfnShape shape;
    shape.kind = n_experts > 0 ? FfnKind::moe : gated ? FfnKind::gated : FfnKind::dense;
    shape.d_model = d_model;
    shape.d_ff = d_ff;
    shape.biases = {gated && bias, bias, bias};
    shape.gated_experts = gated;
    shape.n_experts = n_experts;
    shape.top_k = top_k;
    return count_ffn(shape);
  }
  std::uint64_t matrices() const { return gated ? 3 : 2; }
  std::uint64_t expert_weights() const { return matrices() * d_model * d_ff; }
  std::uint64_t parameters() const { return counts().parameters; }
  std::uint64_t active_parameters() const { return counts().active_parameters; }
  std::uint64_t router() const { return counts().router; }
  std::uint64_t macs_per_token() const { return counts().macs_per_token; }
};

double number(std::uint64_t count) { return static_cast<double>(count); }

FfnSize random_size(QuestionRandom& random) {
  FfnSize size;
  size.d_model = 64 * random.between(1, 64);
  size.d_ff = 64 * random.between(1, 256);
  return size;
}

FfnSize random_mixture(QuestionRandom& random) {
  FfnSize size;
  size.d_model = 64 * random.between(1, 64);
  size.d_ff = 64 * random.between(1, 128);
  size.gated = random.coin();
  size.n_experts = random.pick<std::uint64_t>({4, 8, 16, 32, 64, 128});
  size.top_k = random.pick<std::uint64_t>({1, 2, 4});
  return size;
}

std::string kind_name(const FfnSize& size) {
  return size.n_experts > 0 ? "moe" : size.gated ? "gated" : "dense";
}

std::string kind_words(const FfnSize& size) {
  if (size.n_experts == 0)
    return fmt::format("a {} FFN with d_model = {} and d_ff = {}",
                       size.gated ? "gated (three-matrix)" : "dense (two-matrix)",
                       grouped(size.d_model), grouped(size.d_ff));
  return fmt::format(
      "a mixture of {} {} experts with d_model = {} and d_ff = {} each, top {} running, and a "
      "router "
      "without bias",
      size.n_experts, size.gated ? "gated (three-matrix)" : "dense (two-matrix)",
      grouped(size.d_model), grouped(size.d_ff), size.top_k);
}

void add_size(QuizQuestion& question, const FfnSize& size) {
  auto& all = question.parameters;
  all.emplace_back("kind", kind_name(size));
  all.emplace_back("d_model", size.d_model);
  all.emplace_back("d_ff", size.d_ff);
  if (size.n_experts == 0) return;
  all.emplace_back("gated_experts", size.gated);
  all.emplace_back("n_experts", size.n_experts);
  all.emplace_back("top_k", size.top_k);
}

// "3 * 768 * 2,048 = 4,718,592"
std::string weights_line(const FfnSize& size) {
  return fmt::format("{} * {} * {} = {}", size.matrices(), grouped(size.d_model),
                     grouped(size.d_ff), grouped(size.expert_weights()));
}

QuizQuestion parameters_of_layer(const FfnSize& size) {
  QuizQuestion question;
  question.question = fmt::format("How many parameters has {}, {}?", kind_words(size),
                                  size.bias ? "with a bias on every matrix" : "without biases");
  add_size(question, size);
  question.parameters.emplace_back("bias", size.bias);
  question.answer = number(size.parameters());
  question.unit = "parameters";
  question.working = fmt::format("Matrices: {}.", weights_line(size));
  if (size.bias)
    question.working +=
        fmt::format(" Biases: {}{} + {} = {}. Together {}.", size.gated ? "2 * " : "",
                    grouped(size.d_ff), grouped(size.d_model),
                    grouped(size.parameters() - size.expert_weights()), grouped(size.parameters()));
  question.sources = size.gated ? std::vector<std::string>{"shazeer2020"}
                                : std::vector<std::string>{"vaswani2017", "computed-dense-count"};
  return question;
}

QuizQuestion dense_parameters(QuestionRandom& random, Workspace&) {
  FfnSize size = random_size(random);
  size.bias = random.coin();
  return parameters_of_layer(size);
}

QuizQuestion gated_parameters(QuestionRandom& random, Workspace&) {
  FfnSize size = random_size(random);
  size.gated = true;
  size.bias = random.coin();
  return parameters_of_layer(size);
}

QuizQuestion parameters_of_mixture(QuestionRandom& random, bool active) {
  const FfnSize size = random_mixture(random);
  QuizQuestion question;
  question.question =
      fmt::format("{} {}, experts without biases?",
                  active ? "How many parameters does one token use (active parameters) in"
                         : "How many parameters are stored in",
                  kind_words(size));
  add_size(question, size);
  question.answer = number(active ? size.active_parameters() : size.parameters());
  question.unit = "parameters";
  const std::uint64_t times = active ? size.top_k : size.n_experts;
  question.working =
      fmt::format("One expert: {}. Router: {} * {} = {}. Together {} * {} + {} = {}{}.",
                  weights_line(size), size.n_experts, grouped(size.d_model), grouped(size.router()),
                  times, grouped(size.counts().expert), grouped(size.router()),
                  grouped(active ? size.active_parameters() : size.parameters()),
                  active ? "; the router always runs whole" : "; every expert is stored");
  question.sources = {"shazeer2017", "computed-moe"};
  return question;
}

QuizQuestion moe_parameters(QuestionRandom& random, Workspace&) {
  return parameters_of_mixture(random, false);
}

QuizQuestion moe_active_parameters(QuestionRandom& random, Workspace&) {
  return parameters_of_mixture(random, true);
}

FfnSize any_size(QuestionRandom& random) {
  const int form = random.whole(0, 2);
  if (form == 2) return random_mixture(random);
  FfnSize size = random_size(random);
  size.gated = form == 1;
  return size;
}

std::string macs_line(const FfnSize& size) {
  if (size.n_experts == 0)
    return fmt::format("{} matrices of {} * {}: {}", size.matrices(), grouped(size.d_model),
                       grouped(size.d_ff), weights_line(size));
  return fmt::format("Router {} * {} = {}, and {} experts of {}: {} in all", size.n_experts,
                     grouped(size.d_model), grouped(size.router()), size.top_k, weights_line(size),
                     grouped(size.macs_per_token()));
}

QuizQuestion forward_macs(QuestionRandom& random, Workspace&) {
  const FfnSize size = any_size(random);
  QuizQuestion question;
  question.question = fmt::format(
      "How many multiply-adds (MACs) do the matrix products of {} take for one token, forward?",
      kind_words(size));
  add_size(question, size);
  question.answer = number(size.macs_per_token());
  question.unit = "MACs";
  question.working = macs_line(size) + ". Each weight that runs is used once per token.";
  question.sources = {"computed-work"};
  return question;
}

QuizQuestion forward_flops(QuestionRandom& random, Workspace&) {
  const FfnSize size = any_size(random);
  const std::uint64_t tokens = random.between(2, 64);
  QuizQuestion question;
  question.question = fmt::format(
      "How many FLOPs do the matrix products of {} take for {} tokens, forward (1 multiply-add = 2 "
      "FLOPs)?",
      kind_words(size), tokens);
  add_size(question, size);
  question.parameters.emplace_back("tokens", tokens);
  const std::uint64_t flops = 2 * tokens * size.macs_per_token();
  question.answer = number(flops);
  question.unit = "FLOPs";
  question.working = fmt::format("{}. 2 FLOPs * {} tokens * {} = {}.", macs_line(size), tokens,
                                 grouped(size.macs_per_token()), grouped(flops));
  question.sources = {"computed-work"};
  return question;
}

QuizQuestion backward_flops(QuestionRandom& random, Workspace&) {
  FfnSize size = random_size(random);
  size.gated = random.coin();
  const std::uint64_t tokens = random.between(2, 64);
  QuizQuestion question;
  question.question = fmt::format(
      "How many FLOPs do the matrix products of the backward pass of {} take for {} tokens?",
      kind_words(size), tokens);
  add_size(question, size);
  question.parameters.emplace_back("tokens", tokens);
  const std::uint64_t forward = 2 * tokens * size.macs_per_token();
  question.answer = number(2 * tokens * size.counts().backward_macs_per_token);
  question.unit = "FLOPs";
  question.working = fmt::format(
      "Forward: 2 * {} tokens * {} MACs = {}. Each forward product has two in the backward pass, "
      "one for the input's gradient and one for the weight's: 2 * {} = {}.",
      tokens, grouped(size.macs_per_token()), grouped(forward), grouped(forward),
      grouped(2 * forward));
  question.sources = {"computed-work"};
  return question;
}

QuizQuestion equal_size(QuestionRandom& random, Workspace&) {
  const std::uint64_t d_model = 64 * random.between(1, 128);
  const auto multiple = random.pick<std::uint64_t>({1, 8, 32, 64, 128, 256});
  const std::uint64_t least = (8 * d_model + 2) / 3;
  const std::uint64_t d_ff = (least + multiple - 1) / multiple * multiple;
  QuizQuestion question;
  question.question = fmt::format(
      "A gated FFN shall hold as many weights as a dense one with d_ff = 4 d_model, d_model = {}. "
      "Which d_ff, rounded up to {}?",
      grouped(d_model),
      multiple == 1 ? "a whole number" : fmt::format("a multiple of {}", multiple));
  question.parameters = {{"d_model", d_model}, {"multiple", multiple}};
  question.answer = number(d_ff);
  question.working = fmt::format(
      "3 * d_model * d_ff = 2 * d_model * 4 * d_model, so d_ff = 8 * {} / 3 = {}, rounded up: {}.",
      grouped(d_model), fixed(8 * number(d_model) / 3, 2), grouped(d_ff));
  question.sources = {"shazeer2020", "computed-eight-thirds"};
  return question;
}

QuizQuestion ffn_share(QuestionRandom& random, Workspace&) {
  const auto head_dim = random.pick<std::uint64_t>({64, 128});
  const auto n_kv_heads = random.pick<std::uint64_t>({1, 2, 4, 8});
  const std::uint64_t n_heads = n_kv_heads * random.pick<std::uint64_t>({1, 2, 4});
  FfnSize size;
  size.d_model = n_heads * head_dim;
  size.d_ff = 64 * random.between(size.d_model / 64, 6 * size.d_model / 64);
  size.gated = random.coin();
  const std::uint64_t kv_width = n_kv_heads * head_dim;
  const std::uint64_t attention = 2 * size.d_model * size.d_model + 2 * size.d_model * kv_width;
  const std::uint64_t ffn = size.parameters();
  QuizQuestion question;
  question.question = fmt::format(
      "Attention with {} heads and {} key/value heads of {} numbers each, then {}. What share of "
      "these weights is the FFN's, in % with one decimal (no biases, no norms)?",
      n_heads, n_kv_heads, head_dim, kind_words(size));
  add_size(question, size);
  question.parameters.emplace_back("n_heads", n_heads);
  question.parameters.emplace_back("n_kv_heads", n_kv_heads);
  question.parameters.emplace_back("head_dim", head_dim);
  question.answer = 100 * number(ffn) / number(attention + ffn);
  question.tolerance = 0.06;
  question.decimals = 1;
  question.unit = "%";
  question.working = fmt::format(
      "FFN: {}. Attention: queries and output 2 * {} * {}, keys and values 2 * {} * {}, together "
      "{}. {} / ({} + {}) = {} %.",
      weights_line(size), grouped(size.d_model), grouped(size.d_model), grouped(size.d_model),
      grouped(kv_width), grouped(attention), grouped(ffn), grouped(ffn), grouped(attention),
      fixed(question.answer, 2));
  question.sources = {"computed-two-thirds"};
  return question;
}

QuizQuestion weight_bytes(QuestionRandom& random, Workspace&) {
  struct Type {
    const char* name;
    std::uint64_t bytes;
  };
  static const std::vector<Type> types{{"f32", 4}, {"f16", 2}, {"bf16", 2}, {"int8", 1}};
  FfnSize size = any_size(random);
  const Type type = random.pick(types);
  const std::uint64_t n_layers = random.between(2, 48);
  const std::uint64_t bytes = n_layers * size.parameters() * type.bytes;
  QuizQuestion question;
  question.question = fmt::format(
      "{} layers, each {}, no biases. How many bytes do these FFN weights take in {}{}?", n_layers,
      kind_words(size), type.name, type.bytes == 1 ? " (scales not counted)" : "");
  add_size(question, size);
  question.parameters.emplace_back("n_layers", n_layers);
  question.parameters.emplace_back("dtype", std::string(type.name));
  question.answer = number(bytes);
  question.unit = "bytes";
  question.working =
      fmt::format("{}{} parameters a layer. {} layers * {} * {} bytes = {} ({}).",
                  size.n_experts > 0 ? fmt::format("{} experts of {}, router {}: ", size.n_experts,
                                                   weights_line(size), grouped(size.router()))
                                     : fmt::format("{}: ", weights_line(size)),
                  grouped(size.parameters()), n_layers, grouped(size.parameters()), type.bytes,
                  grouped(bytes), bytes_text(bytes));
  question.sources = {size.n_experts > 0 ? "computed-moe"
                      : size.gated       ? "computed-eight-thirds"
                                         : "computed-dense-count"};
  return question;
}

QuizQuestion moe_leverage(QuestionRandom& random, Workspace&) {
  const std::uint64_t percent = 5 * random.between(8, 18);
  const auto n_experts = random.pick<std::uint64_t>({4, 8, 16, 32, 64, 128});
  const auto top_k = random.pick<std::uint64_t>({1, 2, 4});
  const bool work = random.coin();
  const double share = number(percent) / 100, rest = 1 - share;
  const std::uint64_t times = work ? top_k : n_experts;
  QuizQuestion question;
  question.question = fmt::format(
      "The FFN holds {} % of a layer's weights and is replaced by {} experts of its size, {} of "
      "them "
      "running per token. By what factor {} (router left aside, two decimals)?",
      percent, n_experts, top_k,
      work ? "does the layer's work per token grow" : "do the layer's parameters grow");
  question.parameters = {{"ffn_percent", percent},
                         {"n_experts", n_experts},
                         {"top_k", top_k},
                         {"measure", std::string(work ? "work" : "parameters")}};
  question.answer = rest + share * number(times);
  question.tolerance = 0.006;
  question.decimals = 2;
  question.working = fmt::format(
      "1 - {0:.2f} stays, the FFN's {0:.2f} counts {1} times: {2:.2f} + {0:.2f} * {1} = {3}.",
      share, times, rest, fixed(question.answer, 2));
  if (work) question.working += " Experts that do not run cost memory, not work.";
  question.sources = {"computed-moe"};
  return question;
}

constexpr std::array<QuestionKind, 11> kKinds{{{"dense_parameters", dense_parameters},
                                               {"gated_parameters", gated_parameters},
                                               {"moe_parameters", moe_parameters},
                                               {"moe_active_parameters", moe_active_parameters},
                                               {"forward_macs", forward_macs},
                                               {"forward_flops", forward_flops},
                                               {"backward_flops", backward_flops},
                                               {"equal_size", equal_size},
                                               {"ffn_share", ffn_share},
                                               {"weight_bytes", weight_bytes},
                                               {"moe_leverage", moe_leverage}}};

}  // namespace

std::span<const QuestionKind> count_questions() { return kKinds; }

}  // namespace fourfold
