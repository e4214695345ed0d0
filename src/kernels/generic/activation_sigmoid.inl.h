// The logistic function s(x) = 1 / (1 + e^-x) and what is made of it.
// Include inside an anonymous namespace, after activation.inl.h.

struct Sigmoid : PlainUp {
  template <class V>
  static V apply(V x) {
    const V zero = V::set(0.0F), one = V::set(1.0F);
    const Exp<V> e = exponential(x);
    Pair<V> bottom = exact_sum(one, scale_pow2(e.m.high, e.n));
    bottom.low = bottom.low + scale_pow2(e.m.low, e.n);
    const auto negative = less(x, zero);
    const Pair<V> top{select(negative, e.m.high, one), select(negative, e.m.low, zero)};
    return scale_pow2(quotient(top, bottom), select(negative, e.n, zero));
  }
  template <class V>
  static V derivative(V x) {
    const Exp<V> e = exponential(x);
    const Sides<V> s = sigmoid_sides(scale_pow2(e.m.high, e.n));
    return s.low * s.high;
  }

 private:
  template <class V>
  static Exp<V> exponential(V x) {
    return exp_parts(Pair<V>{negate(abs(x)), V::set(0.0F)});
  }
};

// (1 - e) / (1 + e), e = e^-2t, and t + t^3 p(t^2) below 0.6, where 1 - e would cancel.
struct Tanh : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = abs(x), one = V::set(1.0F);
    const Exp<V> e = exponential(t);
    const V high = scale_pow2(e.m.high, e.n), low = scale_pow2(e.m.low, e.n);
    Pair<V> top = exact_sum(one, negate(high)), bottom = exact_sum(one, high);
    top.low = top.low - low;
    bottom.low = bottom.low + low;
    const V far = quotient(top, bottom);
    return copy_sign(select(less(t, V::set(0.6F)), near_zero(t), far), x);
  }
  // 1 - tanh^2 = 4 e / (1 + e)^2
  template <class V>
  static V derivative(V x) {
    const Exp<V> e = exponential(abs(x));
    const Sides<V> s = sigmoid_sides(scale_pow2(e.m.high, e.n));
    return V::set(4.0F) * (s.low * s.high);
  }

 private:
  template <class V>
  static Exp<V> exponential(V t) {
    return exp_parts(Pair<V>{V::set(-2.0F) * t, V::set(0.0F)});
  }
  // p: least squares at 400 Chebyshev nodes of t^2 in [0, 0.36]; relative error of tanh 5e-9.
  template <class V>
  static V near_zero(V t) {
    const V u = t * t;
    V p = V::set(2.37351516e-3F);
    p = fma(p, u, V::set(-8.41255393e-3F));
    p = fma(p, u, V::set(2.17891075e-2F));
    p = fma(p, u, V::set(-5.39616533e-2F));
    p = fma(p, u, V::set(0.133333132F));
    p = fma(p, u, V::set(-0.333333343F));
    return fma(t * u, p, t);
  }
};

// x s(x)
struct Silu : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = cut(x);
    return minus_tail(x, sigmoid_tail(t, Pair<V>{negate(t), V::set(0.0F)}));
  }
  template <class V>
  static V derivative(V x) {
    const V t = cut(x);
    const Exp<V> e = exp_parts(Pair<V>{negate(t), V::set(0.0F)});
    return gated_slope(x, t, scale_pow2(e.m.high, e.n), V::set(1.0F));
  }

 private:
  template <class V>
  static V cut(V x) {
    return min(V::set(200.0F), abs(x));  // infinity is cut before 0 * inf can arise
  }
};

// x s(1.702 x); the product 1.702 x is carried in two floats.
struct QuickGelu : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = cut(x);
    return minus_tail(x, sigmoid_tail(t, exponent(t)));
  }
  template <class V>
  static V derivative(V x) {
    const V t = cut(x);
    const Exp<V> e = exp_parts(exponent(t));
    return gated_slope(x, t, scale_pow2(e.m.high, e.n), V::set(1.702F));
  }

 private:
  template <class V>
  static V cut(V x) {
    return min(V::set(120.0F), abs(x));
  }
  template <class V>
  static Pair<V> exponent(V t) {
    return product(t, Pair<V>{V::set(-1.702F), V::set(2.19345093e-8F)});
  }
};

// g s(1.702 g), g = min(x, 7), times 1 + (up cut to [-7, 7]). Alone, without up, it is never
// reached through public calls.
struct SwigluOai {
  template <class V>
  static V apply(V x) {
    return QuickGelu::apply(min(V::set(7.0F), x));
  }
  template <class V>
  static V derivative(V x) {
    return select(less(V::set(7.0F), x), V::set(0.0F), QuickGelu::derivative(x));
  }
  template <class V>
  static V enter(V up) {
    return V::set(1.0F) + max(V::set(-7.0F), min(V::set(7.0F), up));
  }
  template <class V>
  static V up_gradient(V up, V d) {
    return keep_nan(up, select(less(V::set(7.0F), abs(up)), V::set(0.0F), d));
  }
};

// x tanh(ln(1 + e^x)) in m = e^-t, t = |x|. With w = e^x the tanh is (w^2 + 2w) / (w^2 + 2w + 2),
// so
//   tail = m (m + 2) / (m^2 + 2m + 2) below 0 and m 2m / (1 + 2m + 2m^2) above:
//   tail = m k / (a + k b) with k, a, b = 2 + m, 2, m below and 2m, 1, 1 + m above.
struct Mish : PlainUp {
  template <class V>
  static V apply(V x) {
    const V t = cut(x), zero = V::set(0.0F), one = V::set(1.0F), two = V::set(2.0F);
    const auto negative = less(x, zero);
    const Exp<V> e = exp_parts(Pair<V>{negate(t), zero});
    const Pair<V> m{scale_pow2(e.m.high, e.n), scale_pow2(e.m.low, e.n)};
    Pair<V> k = exact_sum(two, m.high), b = exact_sum(one, m.high);
    k = {select(negative, k.high, two * m.high), select(negative, k.low + m.low, two * m.low)};
    b = {select(negative, m.high, b.high), select(negative, m.low, b.low + m.low)};
    const Pair<V> curve = product(k, b);
    Pair<V> bottom = exact_sum(select(negative, two, one), curve.high);
    bottom.low = bottom.low + curve.low;
    const V tail = quotient(product(t, product(e.m, k)), bottom);
    return minus_tail(x, scale_pow2(tail, e.n));
  }
  // tanh(..) + x s(x) (1 - tanh^2(..)); both terms over the same powers of a + k b.
  template <class V>
  static V derivative(V x) {
    const V t = cut(x), zero = V::set(0.0F), one = V::set(1.0F), two = V::set(2.0F);
    const auto negative = less(x, zero);
    const Exp<V> e = exp_parts(Pair<V>{negate(t), zero});
    const V m = scale_pow2(e.m.high, e.n), next = one + m;
    const V bottom = select(negative, fma(m, m + two, two), fma(two * m, next, one));
    const V inverse = one / bottom;
    const V level = select(negative, m * (m + two), fma(two, m, one)) * inverse;
    const V bend = V::set(4.0F) * t * (select(negative, m, m * m) * inverse) * (next * inverse);
    return select(negative, level - bend, level + bend);
  }

 private:
  template <class V>
  static V cut(V x) {
    return min(V::set(200.0F), abs(x));
  }
};
