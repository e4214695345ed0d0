// Attention kernels: both products in tiles of kRows x (kVecs * V::kLanes) accumulators that stay
// in registers, and the exponentials between them. Include inside an anonymous namespace, after
// unroll.inl.h and rows.inl.h.

// Where the first factor has its rows: one below the other, or, for products with its transpose, as
// columns.
enum class Factor { plain, transposed };

// a * b + c; plain code multiplies, then adds, like its matrix product.
template <class V>
inline V multiply_add(V a, V b, V c) {
  if constexpr (V::kLanes == 1) return a * b + c;
  return fma(a, b, c);
}

// c: [kRows, kVecs * kLanes] (+)= a: [kRows, k] * b: [k, kVecs * kLanes].
template <class V, Factor kFactor, std::size_t kRows, std::size_t kVecs>
[[gnu::noinline]] void attention_tile(const float* a, std::size_t lda, const float* b,
                                      std::size_t ldb, float* c, std::size_t ldc, std::size_t k,
                                      bool add) {
  using Rows = std::make_index_sequence<kRows>;
  using Vecs = std::make_index_sequence<kVecs>;
  V acc[kRows][kVecs];
  load_sums(acc, c, ldc, add);
  const auto step = [&](const float* a_column, const float* b_row) __attribute__((always_inline)) {
    V column[kVecs];
    unroll(
        [&](auto v)
            __attribute__((always_inline)) { column[v] = opaque(V::load(b_row + v * V::kLanes)); },
        Vecs{});
    unroll(
        [&](auto r) __attribute__((always_inline)) {
          const V x = opaque(V::set(a_column[kFactor == Factor::plain ? r * lda : r]));
          unroll(
              [&](auto v) __attribute__((always_inline)) {
                acc[r][v] = multiply_add(x, column[v], acc[r][v]);
              },
              Vecs{});
        },
        Rows{});
  };
  const std::size_t next = kFactor == Factor::plain ? 1 : lda;
  std::size_t i = 0;
  for (; i + 4 <= k; i += 4) {
    step(a, b);
    step(a + next, b + ldb);
    step(a + 2 * next, b + 2 * ldb);
    step(a + 3 * next, b + 3 * ldb);
    a += 4 * next;
    b += 4 * ldb;
  }
  for (; i < k; ++i, a += next, b += ldb) step(a, b);
  store_sums(acc, c, ldc);
}

// The same for any number of rows, cut into nearly equal tiles of at most kMaxRows.
template <class V, Factor kFactor, std::size_t kMaxRows, std::size_t kVecs>
void attention_tiles(const float* a, std::size_t lda, const float* b, std::size_t ldb, float* c,
                     std::size_t ldc, std::size_t rows, std::size_t k, bool add) {
  const std::size_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (std::size_t tile = 0, done = 0; tile < count; ++tile) {
    const std::size_t height = (rows - done + count - tile - 1) / (count - tile);
    unroll(
        [&](auto r) {
          if (height == r + 1)
            attention_tile<V, kFactor, r + 1, kVecs>(
                a + (kFactor == Factor::plain ? done * lda : done), lda, b, ldb, c + done * ldc,
                ldc, k, add);
        },
        std::make_index_sequence<kMaxRows>{});
    done += height;
  }
}

// Panels of kWide keys: [head_dim, kWide] each; missing keys are 0.
template <std::size_t kWide>
void pack_keys(const float* keys, std::size_t stride, std::size_t count, std::size_t head_dim,
               float* panels) {
  constexpr std::size_t kBlock = 8;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t rows = count - first < kBlock ? count - first : kBlock;
    const float* from = keys + first * stride;
    float* panel = panels + first / kWide * kWide * head_dim + first % kWide;
    std::size_t column = 0;
    if (rows == kBlock)
      for (; column + kBlock <= head_dim; column += kBlock)
        transpose_8x8(from + column, stride, panel + column * kWide, kWide);
    for (; column < head_dim; ++column)
      for (std::size_t row = 0; row < kBlock; ++row)
        panel[column * kWide + row] = row < rows ? from[row * stride + column] : 0.0F;
  }
  for (std::size_t key = (count + kBlock - 1) / kBlock * kBlock; key % kWide != 0; ++key)
    for (std::size_t column = 0; column < head_dim; ++column)
      panels[key / kWide * kWide * head_dim + column * kWide + key % kWide] = 0.0F;
}

template <class V>
void pack_values(const float* values, std::size_t stride, std::size_t count, std::size_t head_dim,
                 float* packed, std::size_t width) {
  for (std::size_t row = 0; row < count; ++row) {
    const float* from = values + row * stride;
    float* to = packed + row * width;
    std::size_t i = 0;
    for (; i + V::kLanes <= head_dim; i += V::kLanes) V::load(from + i).store(to + i);
    if (i < head_dim) {
      V::load_part(from + i, head_dim - i).store(to + i);
      i += V::kLanes;
    }
    for (; i < width; i += V::kLanes) V::set(0.0F).store(to + i);
  }
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void score_rows(const float* a, std::size_t lda, const float* panels, float* scores,
                std::size_t lds, std::size_t rows, std::size_t count, std::size_t head_dim) {
  constexpr std::size_t kWide = kVecs * V::kLanes;
  static_assert(kKeyGroup % kWide == 0);
  for (std::size_t key = 0; key < count; key += kWide)
    attention_tiles<V, Factor::plain, kMaxRows, kVecs>(a, lda, panels + key * head_dim, kWide,
                                                       scores + key, lds, rows, head_dim, false);
}

// c: [rows, width] (+)= a: [rows, k] * b: [k, width], a slice of columns at a time.
template <class V, Factor kFactor, std::size_t kMaxRows, std::size_t kVecs>
void value_product(const float* a, std::size_t lda, const float* b, float* c, std::size_t width,
                   std::size_t rows, std::size_t k, bool add) {
  constexpr std::size_t kWide = kVecs * V::kLanes, kNarrow = kValueGroup / V::kLanes;
  std::size_t column = 0;
  for (; column + kWide <= width; column += kWide)
    attention_tiles<V, kFactor, kMaxRows, kVecs>(a, lda, b + column, width, c + column, width, rows,
                                                 k, add);
  if constexpr (kWide > kValueGroup)
    for (; column < width; column += kValueGroup)
      attention_tiles<V, kFactor, kMaxRows, kNarrow>(a, lda, b + column, width, c + column, width,
                                                     rows, k, add);
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void mix_rows(const float* weights, std::size_t ldw, const float* packed, float* sums,
              std::size_t width, std::size_t rows, std::size_t count, bool add) {
  value_product<V, Factor::plain, kMaxRows, kVecs>(weights, ldw, packed, sums, width, rows, count,
                                                   add);
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
void spread_rows(const float* weights, std::size_t ldw, const float* packed, float* sums,
                 std::size_t width, std::size_t rows, std::size_t count) {
  value_product<V, Factor::transposed, kMaxRows, kVecs>(weights, ldw, packed, sums, width, count,
                                                        rows, true);
}

// e^v for v <= 0 as 2^n 2^f with f = t - n, n = round(t), t = v / ln 2: 2^f = 1 + f q(f) on
// |f| <= 1/2, q fitted with relative error 2e-9. Below 2^-126 the result is 0; NaN stays NaN.
template <class V>
inline V exp2_not_positive(V t) {
  const V n = round(t), f = t - n;
  V q = V::set(1.53533634e-4F);
  q = fma(q, f, V::set(1.3398875e-3F));
  q = fma(q, f, V::set(9.61843692e-3F));
  q = fma(q, f, V::set(5.55033237e-2F));
  q = fma(q, f, V::set(0.240226477F));
  q = fma(q, f, V::set(0.693147182F));
  const V power = add_exponent(fma(q, f, V::set(1.0F)), n);
  return select(less(t, V::set(-126.0F)), V::set(0.0F), power);
}

template <class V>
float row_maximum(const float* x, std::size_t n) {
  constexpr float kLowest = -3.402823466e38F;
  constexpr std::size_t kLanes = V::kLanes;
  V top = V::set(kLowest), other = top;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    top = max(top, V::load(x + i));
    other = max(other, V::load(x + i + kLanes));
  }
  top = max(top, other);
  for (; i < n; i += kLanes) top = max(top, V::load_part(x + i, n - i).keep(n - i, kLowest));
  return largest(top);
}

// The difference is taken before the scale, so a large common part costs no accuracy. All maxima
// first: each is a chain that the next row's need not wait for.
template <class V>
void exp_rows(float* x, std::size_t stride, std::size_t rows, std::size_t count, std::size_t growth,
              float scale, float* totals) {
  constexpr std::size_t kLanes = V::kLanes;
  for (std::size_t row = 0; row < rows; ++row)
    totals[row] = row_maximum<V>(x + row * stride, count + row * growth);
  const V factor = V::set(scale * 1.44269504F);
  for (std::size_t row = 0; row < rows; ++row) {
    float* values = x + row * stride;
    const std::size_t n = count + row * growth;
    const V shift = V::set(totals[row]);
    V acc = V::set(0.0F);
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V e = exp2_not_positive((V::load(values + i) - shift) * factor);
      e.store(values + i);
      acc = acc + e;
    }
    if (i < n) {
      const V part = V::load_part(values + i, n - i);
      const V e = exp2_not_positive((part - shift) * factor).keep(n - i, 0.0F);
      e.store_part(values + i, n - i);
      acc = acc + e;
    }
    totals[row] = sum(acc);
  }
}

template <class V>
void divide_row(const float* x, float divisor, float* y, std::size_t n) {
  const V by = V::set(divisor);
  write_row<V>(y, n, [&](auto load) { return load(x) / by; });
}

template <class V, std::size_t kMaxRows, std::size_t kVecs>
constexpr AttentionKernels make_attention_kernels() {
  return {pack_keys<kVecs * V::kLanes>,
          pack_values<V>,
          score_rows<V, kMaxRows, kVecs>,
          mix_rows<V, kMaxRows, kVecs>,
          spread_rows<V, kMaxRows, kVecs>,
          exp_rows<V>,
          divide_row<V>};
}
