// What activations are made of: sums of two floats, e^v as m * 2^n, and the logistic function s.
// Forward results are within 2 ULP wherever they are normal floats. Tails are relative, not
// absolute: 2^n is multiplied last, so a normal result never passes through a subnormal one. The
// smooth ones share one form: f(x) = max(x, 0) - t tail(t), t = |x|, with tail(t) = 1 - f(t) / t.
// Nothing overflows, and no difference of nearly equal numbers is taken.
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

// a * b without the product of the low parts.
template <class V>
inline Pair<V> product(Pair<V> a, Pair<V> b) {
  const V high = a.high * b.high, rest = fma(a.high, b.high, negate(high));
  return {high, fma(a.high, b.low, fma(a.low, b.high, rest))};
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

// s(-t) and s(t) from e = e^-t <= 1, each without cancellation; for derivatives.
template <class V>
struct Sides {
  V low, high;
};
template <class V>
inline Sides<V> sigmoid_sides(V e) {
  const V high = V::set(1.0F) / (V::set(1.0F) + e);
  return {e * high, high};
}

// d/dx x s(v(x)) = s(v) + x v' s(v) s(-v) for odd v; t = |x|, e = e^-|v|, slope = v'. The second
// term is odd in x, so one of the two signs is right.
template <class V>
inline V gated_slope(V x, V t, V e, V slope) {
  const Sides<V> s = sigmoid_sides(e);
  const V bend = t * slope * (s.low * s.high);
  return select(less(x, V::set(0.0F)), s.low - bend, s.high + bend);
}

// value, or NaN where x is NaN.
template <class V>
inline V keep_nan(V x, V value) {
  return select(is_nan(x), x, value);
}

// How `up` enters a gated product, and what it does to the gradient d of up: nothing, but for
// swiglu_oai.
struct PlainUp {
  template <class V>
  static V enter(V up) {
    return up;
  }
  template <class V>
  static V up_gradient(V, V d) {
    return d;
  }
};
