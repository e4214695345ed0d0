// Activations made of straight pieces, and relu2. NaN gives NaN, in the derivative too.
// Include inside an anonymous namespace, after activation.inl.h.

struct Identity : PlainUp {
  template <class V>
  static V apply(V x) {
    return x;
  }
  template <class V>
  static V derivative(V x) {
    return keep_nan(x, V::set(1.0F));
  }
};

struct Relu : PlainUp {
  template <class V>
  static V apply(V x) {
    return max(V::set(0.0F), x);  // NaN is the second operand and stays
  }
  template <class V>
  static V derivative(V x) {
    return keep_nan(x, select(less(V::set(0.0F), x), V::set(1.0F), V::set(0.0F)));
  }
};

struct Relu2 : PlainUp {
  template <class V>
  static V apply(V x) {
    const V positive = Relu::apply(x);
    return positive * positive;
  }
  template <class V>
  static V derivative(V x) {
    const V positive = Relu::apply(x);
    return positive + positive;
  }
};

struct LeakyRelu : PlainUp {
  template <class V>
  static V apply(V x) {
    return select(less(x, V::set(0.0F)), V::set(0.01F) * x, x);
  }
  template <class V>
  static V derivative(V x) {
    return keep_nan(x, select(less(V::set(0.0F), x), V::set(1.0F), V::set(0.01F)));
  }
};

struct Relu6 : PlainUp {
  template <class V>
  static V apply(V x) {
    return min(V::set(6.0F), Relu::apply(x));
  }
  template <class V>
  static V derivative(V x) {
    const V below_6 = select(less(x, V::set(6.0F)), V::set(1.0F), V::set(0.0F));
    return keep_nan(x, select(less(V::set(0.0F), x), below_6, V::set(0.0F)));
  }
};
