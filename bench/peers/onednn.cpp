// oneDNN as a peer of `fourfold bench`: one product per matrix, activation, gating and biases fused
// as post-operations, weights reordered once to the layout that oneDNN picks.
// Answers the line protocol of bench/README.md.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <unordered_map>

#include "onednn_case.h"

namespace peer {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

constexpr int kSecondInput = DNNL_ARG_SRC_1;

int post_input(int index) { return DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | kSecondInput; }

void append_activation(dnnl::post_ops& after, const std::string& name) {
  const std::map<std::string, std::pair<algorithm, std::pair<float, float>>> known{
      {"relu", {algorithm::eltwise_relu, {0, 0}}},
      {"leaky_relu", {algorithm::eltwise_relu, {0.01F, 0}}},
      {"relu6", {algorithm::eltwise_clip, {0, 6}}},
      {"sigmoid", {algorithm::eltwise_logistic, {0, 0}}},
      {"tanh", {algorithm::eltwise_tanh, {0, 0}}},
      {"silu", {algorithm::eltwise_swish, {1, 0}}},
      {"quick_gelu", {algorithm::eltwise_swish, {1.702F, 0}}},
      {"gelu", {algorithm::eltwise_gelu_erf, {0, 0}}},
      {"gelu_tanh", {algorithm::eltwise_gelu_tanh, {0, 0}}},
      {"mish", {algorithm::eltwise_mish, {0, 0}}},
  };
  if (name == "identity") return;
  const auto found = known.find(name);
  if (found == known.end()) throw Cannot(name + " is not an activation of oneDNN");
  const auto& [kind, parameters] = found->second;
  after.append_eltwise(1, kind, parameters.first, parameters.second);
}

// Copies of a dense or gated layer, forward only.
class Forward : public Work {
 public:
  Forward(Device& device, const Case& row);
  void pass() override {
    for (const Copy& copy : copies_) call(copy);
    device_.stream.wait();
  }
  void write_outputs() override {
    call(copies_.front());
    device_.stream.wait();
    write_matrix(device_, "y", y_);
  }

 private:
  struct Copy {
    memory gate, up, down;
  };
  memory weight(const char* name, long out, long in, const memory::desc& wanted) {
    return reordered(device_, read_matrix(device_, row_, name, out, in, true), wanted);
  }
  void call(const Copy& copy);

  Device& device_;
  Case row_;
  memory x_, gate_, hidden_, y_, up_bias_, down_bias_;
  dnnl::matmul gate_product_, up_product_, down_product_;
  std::vector<Copy> copies_;
};

Forward::Forward(Device& device, const Case& row) : device_(device), row_(row) {
  const long tokens = row.number("tokens"), d = row.number("d_model"), f = row.number("d_ff");
  x_ = read_matrix(device, row, "x", tokens, d);
  hidden_ = make_matrix(device, row, tokens, f);
  y_ = make_matrix(device, row, tokens, d);
  const memory::desc any_up({d, f}, row.type(), memory::format_tag::any);
  const memory::desc any_down({f, d}, row.type(), memory::format_tag::any);
  dnnl::post_ops after_gate, after_up, after_down;
  if (row.gated()) {
    gate_ = make_matrix(device, row, tokens, f);
    append_activation(after_gate, row.text("activation"));
    after_up.append_binary(algorithm::binary_mul, gate_.get_desc());
  } else {
    up_bias_ = read_vector(device, "up_bias", f);
    down_bias_ = read_vector(device, "down_bias", d);
    after_up.append_binary(algorithm::binary_add, up_bias_.get_desc());
    append_activation(after_up, row.text("activation"));
    after_down.append_binary(algorithm::binary_add, down_bias_.get_desc());
  }
  const auto up = make_product(device, x_.get_desc(), any_up, hidden_.get_desc(), after_up);
  const auto down = make_product(device, hidden_.get_desc(), any_down, y_.get_desc(), after_down);
  up_product_ = dnnl::matmul(up);
  down_product_ = dnnl::matmul(down);
  memory::desc gate_layout;
  if (row.gated()) {
    const auto gate = make_product(device, x_.get_desc(), any_up, gate_.get_desc(), after_gate);
    gate_product_ = dnnl::matmul(gate);
    gate_layout = gate.weights_desc();
  }
  for (long copy = 0; copy < row.number("copies"); ++copy)
    copies_.push_back({row.gated() ? weight("gate", f, d, gate_layout) : memory(),
                       weight("up", f, d, up.weights_desc()),
                       weight("down", d, f, down.weights_desc())});
}

void Forward::call(const Copy& copy) {
  Arguments up{{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, copy.up}, {DNNL_ARG_DST, hidden_}};
  Arguments down{{DNNL_ARG_SRC, hidden_}, {DNNL_ARG_WEIGHTS, copy.down}, {DNNL_ARG_DST, y_}};
  if (row_.gated()) {
    gate_product_.execute(
        device_.stream, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, copy.gate}, {DNNL_ARG_DST, gate_}});
    up.emplace(post_input(0), gate_);
  } else {
    up.emplace(post_input(0), up_bias_);
    down.emplace(post_input(0), down_bias_);
  }
  up_product_.execute(device_.stream, up);
  down_product_.execute(device_.stream, down);
}

Case parse_case(std::istringstream& words) {
  Case row;
  for (std::string word; words >> word;) {
    const std::size_t at = word.find('=');
    if (at != std::string::npos) row.fields[word.substr(0, at)] = word.substr(at + 1);
  }
  return row;
}

std::unique_ptr<Work> make_work(std::unique_ptr<Device>& device, const Case& row) {
  const std::string& kind = row.text("kind");
  if (kind != "dense" && kind != "gated")
    throw Cannot("times dense and gated layers; it has no " + kind + " of its own");
  if (!device) {
    // Counts only before the first use of the library.
    const std::string& isa = row.text("isa");
    if (isa == "scalar") throw Cannot("oneDNN cannot be held to scalar code");
    if (isa == "avx2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    device = std::make_unique<Device>();
  }
  if (row.text("backward") == "1") return make_training(*device, row);
  return std::make_unique<Forward>(*device, row);
}

std::string answer(std::unique_ptr<Device>& device, std::unique_ptr<Work>& work,
                   const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "case") {
    work.reset();  // the last row's memory goes first
    work = make_work(device, parse_case(words));
    const dnnl_version_t& version = *dnnl_version();
    return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.patch);
  }
  if (!work) throw Cannot("answer before a case");
  if (verb == "result") {
    work->write_outputs();
    return "";
  }
  if (verb != "go") throw Cannot(verb + ": no such question");
  long passes = 0, warm = 0;
  words >> passes >> warm;
  if (warm == 1) work->pass();
  const auto begin = std::chrono::steady_clock::now();
  for (long pass = 0; pass < passes; ++pass) work->pass();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return std::to_string(time.count());
}

void serve() {
  std::unique_ptr<Device> device;
  std::unique_ptr<Work> work;
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    try {
      text = "ok " + answer(device, work, line);
    } catch (const Cannot& reason) {
      text = std::string("cannot ") + reason.what();
    } catch (const dnnl::error& error) {
      text = std::string("cannot run it: ") + error.what();
    }
    std::cout << text << std::endl;
  }
}

// OpenMP reads its environment before main, so the program starts itself once more with it.
void pin_threads(int count, char** arguments) {
  if (std::getenv("GOMP_CPU_AFFINITY") != nullptr) return;
  std::string threads = "1", cpus = "0";
  for (int i = 1; i + 1 < count; ++i) {
    if (std::string(arguments[i]) == "--threads") threads = arguments[i + 1];
    if (std::string(arguments[i]) == "--cpus") cpus = arguments[i + 1];
  }
  for (char& letter : cpus)
    if (letter == ',') letter = ' ';
  setenv("OMP_NUM_THREADS", threads.c_str(), 1);
  setenv("GOMP_CPU_AFFINITY", cpus.c_str(), 1);
  execv("/proc/self/exe", arguments);
}

}  // namespace
}  // namespace peer

int main(int count, char** arguments) {
  try {
    peer::pin_threads(count, arguments);
    peer::serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "onednn: %s\n", error.what());
    return 1;
  }
  return 0;
}
