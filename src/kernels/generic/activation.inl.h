// Activations on vectors, within 2 ULP wherever the result is a normal float. Tails are relative,
// not absolute: e^v is kept as m * 2^n and scaled last, so a normal result never passes through a
// subnormal one. The smooth ones share one form: f(x) = max(x, 0) - t tail(t), t = |x|, with
// tail(t) = 1 - f(t) / t. Nothing overflows, and no difference of nearly equal numbers is taken.
// Include inside an anonymous namespace, after vec.h.

// A value as the sum of two floats, the second at most half a unit of the first.
template <class V>
struct Pair {
  V high, low;
};

template <class V>
inline V negate(V x) {
  return V::set(0.0F) - x;
}

// a + b exactly (Knuth's two-sum).
template <class V>
inline Pair<V> exact_sum(V a, V b) {
  const V high = a + b, back = high - a;
  return {high, (a - (high - back)) + (b - back)};
}

// a * b.high exactly, plus a * b.low.
template <class V>
inline Pair<V> product(V a, Pair<V> b) {
  const V high = a * b.high;
  return {high, fma(a, b.low, fma(a, b.high, negate(high)))};
}

// top / bottom, rounded about once: the quotient is corrected by its own remainder.
template <class V>
inline V quotient(Pair<V> top, Pair<V> bottom) {
  const V inverse = V::set(1.0F) / bottom.high, rough = top.high * inverse;
  const V rest =
      fma(negate(rough), bottom.high, top.high) + fma(negate(rough), bottom.low, top.low);
  return fma(rest, inverse, rough);
}

// e^v = m * 2^n with m in about [0.7, 1.42]. v is cut to [-150, 130]; NaN stays NaN.
// exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/2, q a Chebyshev fit with relative error 7e-10.
template <class V>
struct Exp {
  Pair<V> m;
  V n;
};
template <class V>
inline Exp<V> exp_parts(Pair<V> v) {
  const V one = V::set(1.0F), high = max(V::set(-150.0F), min(V::set(130.0F), v.high));
  const V n = round(high * V::set(1.44269504F));
  V r = fma(n, V::set(-0.693145752F),
            high);  // ln 2 in two parts; the first has 9 zero bits: exact product
  r = fma(n, V::set(-1.42860677e-6F), r) + v.low;
  V q = V::set(1.98998993e-4F);
  q = fma(q, r, V::set(1.39336765e-3F));
  q = fma(q, r, V::set(8.33329838e-3F));
  q = fma(q, r, V::set(4.16664630e-2F));
  q = fma(q, r, V::set(0.166666672F));
  q = fma(q, r, V::set(0.5F));
  const V p = fma(r * r, q, r), m = one + p;
  return {{m, (one - m) + p}, n};
}

struct Identity {
  template <class V>
  static V apply(V x) {
    return x;
  }
};

struct Relu {
  template <class V>
  static V apply(V x) {
    return max(V::set(0.0F), x);  // NaN is the second operand and stays
  }
};

// max(x, 0) - w; NaN compares false and stays.
template <class V>
inline V minus_tail(V x, V w) {
  return select(less(x, V::set(0.0F)), V::set(0.0F), x) - w;
}

// t s(-v) = t e^-v / (1 + e^-v) for v >= 0.
template <class V>
inline V sigmoid_tail(V t, Pair<V> minus_v) {
  const Exp<V> e = exp_parts(minus_v);
  const V scaled = scale_pow2(e.m.high, e.n);  // e^-v <= 1
  Pair<V> bottom = exact_sum(V::set(1.0F), scaled);
  bottom.low = bottom.low + scale_pow2(e.m.low, e.n);
  return scale_pow2(quotient(product(t, e.m), bottom), e.n);
}

// x s(x)
struct Silu {
  template <class V>
  static V apply(V x) {
    const V t = min(V::set(200.0F), abs(x));  // infinity is cut before 0 * inf can arise
    return minus_tail(x, sigmoid_tail(t, Pair<V>{negate(t), V::set(0.0F)}));
  }
};

// x s(2u), 2u = x (a + b x^2), a = 2 sqrt(2 / pi), b = 0.044715 a. 2u reaches 88, so it is carried
// in two floats.
struct GeluTanh {
  template <class V>
  static V apply(V x) {
    const V t = min(V::set(20.0F), abs(x));
    const Pair<V> a{V::set(1.59576917F), V::set(-4.53406804e-8F)};
    const Pair<V> b{V::set(0.0713548139F), V::set(2.3988324e-9F)};
    const V square = t * t, square_low = fma(t, t, negate(square));
    Pair<V> cubic = product(square, b);  // b x^2
    cubic.low = fma(b.high, square_low, cubic.low);
    Pair<V> factor = exact_sum(a.high, cubic.high);
    factor.low = factor.low + (a.low + cubic.low);
    const Pair<V> v = product(t, factor);
    return minus_tail(x, sigmoid_tail(t, Pair<V>{negate(v.high), negate(v.low)}));
  }
};

// x Phi(x) with Phi(-t) = exp(-t^2/2) R(t), R(t) (t + 1) a polynomial of degree 10 in (t - 2.5) /
// (t + 2.5) on [0, 15], fitted at Chebyshev nodes of the exact function: relative error 1.2e-8.
// Never 1 + erf, which cancels below -1.
struct GeluErf {
  template <class V>
  static V apply(V x) {
    const V t = min(V::set(15.0F), abs(x));
    const V z = (t - V::set(2.5F)) / (t + V::set(2.5F));
    V p = V::set(-6.46324324e-5F);
    p = fma(p, z, V::set(-2.28725388e-4F));
    p = fma(p, z, V::set(2.57977399e-6F));
    p = fma(p, z, V::set(1.26613781e-3F));
    p = fma(p, z, V::set(1.28310546e-3F));
    p = fma(p, z, V::set(-6.04858156e-3F));
    p = fma(p, z, V::set(-8.69963504e-3F));
    p = fma(p, z, V::set(4.60630618e-2F));
    p = fma(p, z, V::set(-3.77166755e-2F));
    p = fma(p, z, V::set(-9.15874913e-2F));
    const V constant = V::set(0.494659662F), rational = fma(p, z, constant);
    const V rational_low = fma(p, z, constant - rational);  // the difference is exact
    const V half = V::set(0.5F) * t, exponent = half * t;
    const Exp<V> e = exp_parts(Pair<V>{negate(exponent), negate(fma(half, t, negate(exponent)))});
    Pair<V> top = product(rational, e.m);
    top.low = fma(rational_low, e.m.high, top.low);
    const V w = quotient(product(t, top), exact_sum(t, V::set(1.0F)));
    return minus_tail(x, scale_pow2(w, e.n));
  }
};

// y[i] = f(x[i]); the tail goes through the same code with the missing lanes masked.
template <class V, class F>
void apply_elementwise(const float* x, float* y, std::size_t n) {
  std::size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) F::apply(V::load(x + i)).store(y + i);
  if (i < n) F::apply(V::load_part(x + i, n - i)).store_part(y + i, n - i);
}

// y: [rows, cols] = f(c + bias), c: [rows, 64], cols <= 64.
template <class V, class F>
void gemm_epilogue(const float* c, const float* bias, float* y, std::size_t ldy, std::size_t rows,
                   std::size_t cols) {
  for (std::size_t i = 0; i < cols; i += V::kLanes) {
    const std::size_t n = cols - i;
    const V b = bias != nullptr ? V::load_part(bias + i, n) : V::set(0.0F);
    for (std::size_t r = 0; r < rows; ++r) {
      const V sum = V::load(c + r * kPanel + i);
      F::apply(bias != nullptr ? sum + b : sum).store_part(y + r * ldy + i, n);
    }
  }
}
