// Activations over rows of floats; F is one of their structs. The tail of a row goes through the
// same code with the missing lanes masked. Whole vectors are read before one is written, so results
// may replace arguments. Each loop takes in all that it calls, so that constants stay in registers.
// Include inside an anonymous namespace, after activation.inl.h.

// Calls body(load, store) for each vector of a row: load(p), store(v, p) move its floats from, to
// p.
template <class V, class Body>
inline void for_each_vector(std::size_t n, Body body) {
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes)
    body([i](const float* p) { return V::load(p + i); }, [i](V v, float* p) { v.store(p + i); });
  if (i == n) return;
  const std::size_t rest = n - i;
  body([i, rest](const float* p) { return V::load_part(p + i, rest); },
       [i, rest](V v, float* p) { v.store_part(p + i, rest); });
}

// y[i] = f(x[i])
template <class V, class F>
[[gnu::flatten]] void apply_elementwise(const float* x, float* y, std::size_t n) {
  for_each_vector<V>(n, [=](auto load, auto store) { store(F::apply(load(x)), y); });
}

// dx[i] = dy[i] f'(x[i])
template <class V, class F>
[[gnu::flatten]] void activation_backward(const float* x, const float* dy, float* dx,
                                          std::size_t n) {
  for_each_vector<V>(n,
                     [=](auto load, auto store) { store(load(dy) * F::derivative(load(x)), dx); });
}

// h[i] = f(gate[i]) up[i]
template <class V, class F>
[[gnu::flatten]] void glu(const float* gate, const float* up, float* h, std::size_t n) {
  for_each_vector<V>(
      n, [=](auto load, auto store) { store(F::apply(load(gate)) * F::enter(load(up)), h); });
}

// dgate[i] = dh[i] up[i] f'(gate[i]), dup[i] = dh[i] f(gate[i])
template <class V, class F>
[[gnu::flatten]] void glu_backward(const float* gate, const float* up, const float* dh,
                                   float* dgate, float* dup, std::size_t n) {
  for_each_vector<V>(n, [=](auto load, auto store) {
    const V g = load(gate), u = load(up), d = load(dh);
    store((d * F::enter(u)) * F::derivative(g), dgate);
    store(F::up_gradient(u, d * F::apply(g)), dup);
  });
}

// y: [rows, cols] = f(c + bias), c: [rows, 64], cols <= 64.
template <class V, class F>
[[gnu::flatten]] void gemm_epilogue(const float* c, const float* bias, float* y, std::size_t ldy,
                                    std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < cols; i += V::kLanes) {
    const std::size_t n = cols - i;
    const V zero = V::set(0.0F), b = bias != nullptr ? V::load_part(bias + i, n) : zero;
    // A sum that underflowed to -0 becomes 0, as it does when a term 0 * w follows: products that
    // skip such terms then give the same bits.
    for (std::size_t r = 0; r < rows; ++r)
      F::apply((V::load(c + r * kPanel + i) + zero) + b).store_part(y + r * ldy + i, n);
  }
}

// The same for a gated expansion; zero as in gemm_epilogue.
template <class V, class F>
[[gnu::flatten]] void glu_epilogue(const GluTile& t) {
  const V zero = V::set(0.0F);
  for (std::size_t i = 0; i < t.cols; i += V::kLanes) {
    const std::size_t n = t.cols - i;
    const V gate_bias = t.gate_bias != nullptr ? V::load_part(t.gate_bias + i, n) : zero;
    const V up_bias = t.up_bias != nullptr ? V::load_part(t.up_bias + i, n) : zero;
    for (std::size_t r = 0; r < t.rows; ++r) {
      const V gate = (V::load(t.gate + r * kPanel + i) + zero) + gate_bias;
      const V up = (V::load(t.up + r * kPanel + i) + zero) + up_bias;
      if (t.gate_pre != nullptr) {
        gate.store_part(t.gate_pre + r * t.gate_stride + i, n);
        up.store_part(t.up_pre + r * t.up_stride + i, n);
      }
      (F::apply(gate) * F::enter(up)).store_part(t.h + r * t.h_stride + i, n);
    }
  }
}

// glu_backward and glu of the same values, which share most of their work.
template <class V, class F>
[[gnu::flatten]] void glu_backward_again(const float* gate, const float* up, const float* dh,
                                         float* dgate, float* dup, float* h, std::size_t n) {
  for_each_vector<V>(n, [=](auto load, auto store) {
    const V g = load(gate), u = load(up), d = load(dh), act = F::apply(g);
    store((d * F::enter(u)) * F::derivative(g), dgate);
    store(F::up_gradient(u, d * act), dup);
    store(act * F::enter(u), h);
  });
}
