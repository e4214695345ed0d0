// The two forms of GELU. Include inside an anonymous namespace, after activation.inl.h.

// x s(2u), 2u = x (a + b x^2), a = 2 sqrt(2 / pi), b = 0.044715 a. 2u reaches 88, so it is carried
// in two floats.
struct GeluTanh : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = cut(x);
    return minus_tail(x, sigmoid_tail(t, exponent(t)));
  }
  template <class V>
  static V derivative(V x) {
    const V t = cut(x);
    const Exp<V> e = exp_parts(exponent(t));
    // d/dx 2u = a + 3b x^2
    const V slope = fma(t * t, V::set(0.214064449F), V::set(1.59576917F));
    return gated_slope(x, t, scale_pow2(e.m.high, e.n), slope);
  }

 private:
  template <class V>
  static V cut(V x) {
    return min(V::set(20.0F), abs(x));
  }
  // -2u at t
  template <class V>
  static Pair<V> exponent(V t) {
    const Pair<V> a{V::set(1.59576917F), V::set(-4.53406804e-8F)};
    const Pair<V> b{V::set(0.0713548139F), V::set(2.3988324e-9F)};
    const V square = t * t, square_low = fma(t, t, negate(square));
    Pair<V> cubic = product(square, b);  // b x^2
    cubic.low = fma(b.high, square_low, cubic.low);
    Pair<V> factor = exact_sum(a.high, cubic.high);
    factor.low = factor.low + (a.low + cubic.low);
    const Pair<V> v = product(t, factor);
    return {negate(v.high), negate(v.low)};
  }
};

// x Phi(x) with Phi(-t) = exp(-t^2/2) R(t), R(t) (t + 1) a polynomial of degree 10 in (t - 2.5) /
// (t + 2.5) on [0, 15], fitted at Chebyshev nodes of the exact function: relative error 1.2e-8.
// Never 1 + erf, which cancels below -1.
struct GeluErf : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = cut(x);
    const Pair<V> rational = scaled_tail(t);
    const Exp<V> e = bell(t);
    Pair<V> top = product(rational.high, e.m);
    top.low = fma(rational.low, e.m.high, top.low);
    const V w = quotient(product(t, top), exact_sum(t, V::set(1.0F)));
    return minus_tail(x, scale_pow2(w, e.n));
  }
  // Phi(x) + x exp(-x^2/2) / sqrt(2 pi)
  template <class V>
  static V derivative(V x) {
    const V t = cut(x), one = V::set(1.0F);
    const Exp<V> e = bell(t);
    const V height = scale_pow2(e.m.high, e.n);
    const V below = height * (scaled_tail(t).high / (t + one));  // Phi(-t)
    const V bend = V::set(0.398942280F) * t * height;
    return select(less(x, V::set(0.0F)), below - bend, (one - below) + bend);
  }

 private:
  template <class V>
  static V cut(V x) {
    return min(V::set(15.0F), abs(x));
  }
  // exp(-t^2/2)
  template <class V>
  static Exp<V> bell(V t) {
    const V half = V::set(0.5F) * t, exponent = half * t;
    return exp_parts(Pair<V>{negate(exponent), negate(fma(half, t, negate(exponent)))});
  }
  // R(t) (t + 1)
  template <class V>
  static Pair<V> scaled_tail(V t) {
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
    return {rational, fma(p, z, constant - rational)};  // the difference is exact
  }
};
