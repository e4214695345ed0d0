// Row kernels: LayerNorm, softmax, addition. One routine per row, so a row's bits depend on its
// length only. Include inside an anonymous namespace, after activation.inl.h.

// The mean is taken twice: the second pass adds the mean of what the first one missed, so values of
// 1e7 with a spread of 1 keep their spread and a constant row gives exactly beta. E[x^2] - E[x]^2
// is never formed.
template <class V>
void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::size_t n,
                float eps) {
  const auto total = [&](auto term) {
    V acc = V::set(0.0F);
    std::size_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) acc = acc + term(V::load(x + i));
    if (i < n) acc = acc + term(V::load_part(x + i, n - i)).keep(n - i, 0.0F);
    return sum(acc);
  };
  const float count = static_cast<float>(n);
  const V rough = V::set(total([](V v) { return v; }) / count);
  const V missed = V::set(total([&](V v) { return v - rough; }) / count);
  const auto centred = [&](V v) { return (v - rough) - missed; };
  const float variance = total([&](V v) { return centred(v) * centred(v); }) / count;
  const float spread = variance + eps;
  // A constant row with eps = 0 has no spread: it becomes beta, not 0 * inf.
  const V scale = V::set(spread == 0.0F ? 0.0F : 1.0F / __builtin_sqrtf(spread));
  const auto finish = [&](V v, V g, V b) { return fma(centred(v) * scale, g, b); };
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes)
    finish(V::load(x + i), V::load(gamma + i), V::load(beta + i)).store(y + i);
  if (i < n) {
    const std::size_t rest = n - i;
    finish(V::load_part(x + i, rest), V::load_part(gamma + i, rest), V::load_part(beta + i, rest))
        .store_part(y + i, rest);
  }
}

// Largest value first, so exp never overflows; a NaN reaches every value through the sum.
template <class V>
void softmax(float* x, std::size_t n, float scale) {
  constexpr float kLowest = -3.402823466e38F;
  const V factor = V::set(scale);
  V top = V::set(kLowest);
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) top = max(top, V::load(x + i) * factor);
  if (i < n) top = max(top, (V::load_part(x + i, n - i) * factor).keep(n - i, kLowest));
  const V shift = V::set(largest(top));
  const auto exponential = [&](V v) {
    const Exp<V> e = exp_parts(Pair<V>{v * factor - shift, V::set(0.0F)});
    return scale_pow2(e.m.high, e.n);
  };
  V acc = V::set(0.0F);
  for (i = 0; i + V::kLanes <= n; i += V::kLanes) {
    const V e = exponential(V::load(x + i));
    e.store(x + i);
    acc = acc + e;
  }
  if (i < n) {
    const V e = exponential(V::load_part(x + i, n - i)).keep(n - i, 0.0F);
    e.store_part(x + i, n - i);
    acc = acc + e;
  }
  const V divisor = V::set(sum(acc));
  for (i = 0; i + V::kLanes <= n; i += V::kLanes) (V::load(x + i) / divisor).store(x + i);
  if (i < n) (V::load_part(x + i, n - i) / divisor).store_part(x + i, n - i);
}

template <class V>
void add_row(const float* x, float* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) (V::load(y + i) + V::load(x + i)).store(y + i);
  if (i < n) (V::load_part(y + i, n - i) + V::load_part(x + i, n - i)).store_part(y + i, n - i);
}

template <class V>
constexpr RowKernels make_row_kernels() {
  return {layer_norm<V>, softmax<V>, add_row<V>};
}
