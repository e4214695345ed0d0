// Forward and backward of a SiLU-gated layer from oneDNN's products; no peer ships it, so this is
// composed by hand: 9 products and two elementwise passes. Weights stay plain, as they change with
// every step: gate and up are [d_model, d_ff], down [d_ff, d_model], the better order for oneDNN.
#include <cmath>
#include <cstring>
#include <utility>

#include "onednn_case.h"

namespace peer {
namespace {

using dnnl::memory;

struct Bf16 {
  std::uint16_t bits;
};

inline float load(float value) { return value; }
inline float load(Bf16 value) {
  const std::uint32_t wide = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &wide, sizeof(result));
  return result;
}
inline void store(float& to, float value) { to = value; }
inline void store(Bf16& to, float value) {  // to nearest, ties to even
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += 0x7FFFU + ((bits >> 16) & 1U);
  to.bits = static_cast<std::uint16_t>(bits >> 16);
}

// h = silu(gate) up
template <class T>
void silu_forward(long n, const T* gate, const T* up, T* h) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; ++i) {
    const float g = load(gate[i]);
    store(h[i], g / (1 + std::exp(-g)) * load(up[i]));
  }
}

// dgate = dh up silu'(gate), dup = dh silu(gate)
template <class T>
void silu_backward(long n, const T* gate, const T* up, const T* dh, T* dgate, T* dup) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; ++i) {
    const float g = load(gate[i]), d = load(dh[i]);
    const float s = 1 / (1 + std::exp(-g)), silu = g * s;
    store(dgate[i], d * load(up[i]) * (s + silu * (1 - s)));
    store(dup[i], d * silu);
  }
}

class Training : public Work {
 public:
  Training(Device& device, const Case& row);
  void pass() override {
    for (const Copy& copy : copies_) call(copy);
    device_.stream.wait();
  }
  void write_outputs() override {
    call(copies_.front());
    device_.stream.wait();
    write_matrix(device_, "y", y_);
    write_matrix(device_, "dx", dx_);
    write_matrix(device_, "dgate", dw_gate_, true);
    write_matrix(device_, "dup", dw_up_, true);
    write_matrix(device_, "ddown", dw_down_, true);
  }

 private:
  struct Copy {
    memory gate, up, down;
  };
  memory plain(const char* name, long out, long in) {
    memory file = read_matrix(device_, row_, name, out, in, true);
    return reordered(device_, std::move(file), {{in, out}, row_.type(), memory::format_tag::ab});
  }
  memory make(long rows, long cols) { return make_matrix(device_, row_, rows, cols); }
  // The same memory, read the other way round.
  memory turned(const memory& matrix) {
    const memory::dims dims = matrix.get_desc().dims();
    return {{{dims[1], dims[0]}, row_.type(), memory::format_tag::ba},
            device_.engine,
            matrix.get_data_handle()};
  }
  dnnl::matmul product(const memory& a, const memory& b, const memory& c, bool add = false) {
    dnnl::post_ops after;
    if (add) after.append_sum(1);
    return dnnl::matmul(make_product(device_, a.get_desc(), b.get_desc(), c.get_desc(), after));
  }
  void multiply(const dnnl::matmul& how, const memory& a, const memory& b, const memory& c) {
    how.execute(device_.stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  }
  void call(const Copy& copy);
  template <class T>
  void activate();
  template <class T>
  void activate_backward();

  Device& device_;
  Case row_;
  std::vector<Copy> copies_;
  memory x_, dy_, gate_, up_, hidden_, y_, dhidden_, dgate_, dup_, dx_, dw_gate_, dw_up_, dw_down_;
  dnnl::matmul expand_, contract_, into_hidden_, to_x_, add_to_x_, weight_in_, weight_out_;
};

Training::Training(Device& device, const Case& row) : device_(device), row_(row) {
  if (!row.gated() || row.text("activation") != "silu")
    throw Cannot("forward + backward is composed for silu-gated layers only");
  const long tokens = row.number("tokens"), d = row.number("d_model"), f = row.number("d_ff");
  x_ = read_matrix(device, row, "x", tokens, d);
  dy_ = read_matrix(device, row, "dy", tokens, d);
  for (memory* matrix : {&gate_, &up_, &hidden_, &dhidden_, &dgate_, &dup_})
    *matrix = make(tokens, f);
  y_ = make(tokens, d);
  dx_ = make(tokens, d);
  dw_gate_ = make(d, f);
  dw_up_ = make(d, f);
  dw_down_ = make(f, d);
  for (long copy = 0; copy < row.number("copies"); ++copy)
    copies_.push_back({plain("gate", f, d), plain("up", f, d), plain("down", d, f)});
  const Copy& first = copies_.front();
  expand_ = product(x_, first.gate, gate_);
  contract_ = product(hidden_, first.down, y_);
  into_hidden_ = product(dy_, turned(first.down), dhidden_);
  to_x_ = product(dgate_, turned(first.gate), dx_);
  add_to_x_ = product(dup_, turned(first.up), dx_, true);
  weight_in_ = product(turned(x_), dgate_, dw_gate_);
  weight_out_ = product(turned(hidden_), dy_, dw_down_);
}

template <class T>
void Training::activate() {
  const memory::dims dims = gate_.get_desc().dims();
  silu_forward(dims[0] * dims[1], static_cast<const T*>(gate_.get_data_handle()),
               static_cast<const T*>(up_.get_data_handle()),
               static_cast<T*>(hidden_.get_data_handle()));
}

template <class T>
void Training::activate_backward() {
  const memory::dims dims = gate_.get_desc().dims();
  silu_backward(dims[0] * dims[1], static_cast<const T*>(gate_.get_data_handle()),
                static_cast<const T*>(up_.get_data_handle()),
                static_cast<const T*>(dhidden_.get_data_handle()),
                static_cast<T*>(dgate_.get_data_handle()), static_cast<T*>(dup_.get_data_handle()));
}

void Training::call(const Copy& copy) {
  multiply(expand_, x_, copy.gate, gate_);
  multiply(expand_, x_, copy.up, up_);
  row_.bf16() ? activate<Bf16>() : activate<float>();
  multiply(contract_, hidden_, copy.down, y_);
  multiply(into_hidden_, dy_, turned(copy.down), dhidden_);
  row_.bf16() ? activate_backward<Bf16>() : activate_backward<float>();
  multiply(weight_out_, turned(hidden_), dy_, dw_down_);
  multiply(weight_in_, turned(x_), dgate_, dw_gate_);
  multiply(weight_in_, turned(x_), dup_, dw_up_);
  multiply(to_x_, dgate_, turned(copy.gate), dx_);
  multiply(add_to_x_, dup_, turned(copy.up), dx_);
}

}  // namespace

std::unique_ptr<Work> make_training(Device& device, const Case& row) {
  return std::make_unique<Training>(device, row);
}

}  // namespace peer
