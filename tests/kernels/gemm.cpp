#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

// (rows, cols) with rows `slack` further apart than they are long, and NaN between them, which must never be read.
template <class T>
static std::vector<T> padded(i64 rows, i64 cols, i64 slack) {
  auto x = random<T>(rows * (cols + slack));
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<i64>(i) % (cols + slack) >= cols) x[i] = nan<T>;
  }
  return x;
}

struct Size {
  i64 m, n, k;
};
struct BatchSize {
  i64 batch, m, n, k;
};

template <class T>
struct Factors {
  T alpha, beta;
};

// A routine with gemm's arguments on each size, transposed and padded in every way; of large products, for which v1 is slow,
// only the first few options.
template <class T, class F>
static void agree_on_products(const Routines<T>& tested, decltype(Routines<T>::gemm) Routines<T>::*routine,
                              const std::vector<Size>& sizes, int options, int options_of_large, F factors) {
  for (const Size& size : sizes) {
    const i64 m = size.m, n = size.n, k = size.k;
    for (int option = 0; option < (m * n * k > 1000000 ? options_of_large : options); ++option) {
      const bool ta = option & 1, tb = option & 2;
      const i64 slack = option & 4 ? 3 : 0;
      const Factors<T> f = factors(option);
      const i64 lda = (ta ? m : k) + slack, ldb = (tb ? k : n) + slack, ldc = n + slack;
      const auto a = ta ? padded<T>(k, m, slack) : padded<T>(m, k, slack);
      const auto b = tb ? padded<T>(n, k, slack) : padded<T>(k, n, slack);
      const auto c = random<T>(m * ldc);
      INFO(m, " ", n, " ", k, " option ", option);
      agree(
          tested,
          [&](const Routines<T>& r, Outputs<T>& out) {
            T* result = f.beta == 0 && slack == 0 ? out.fresh(m * ldc) : out.copy(c);
            (r.*routine)(ta, tb, m, n, k, f.alpha, a.data(), lda, b.data(), ldb, f.beta, result, ldc);
          },
          4, false);
    }
  }
}

CONFORMANCE(gemm) {
  // The last three: two threads, of which one has so few rows that they are a block and the other one more, with AVX2 and with
  // AVX-512; several blocks of columns.
  const std::vector<Size> sizes = {{0, 3, 4},     {3, 0, 4},     {3, 4, 0},     {1, 1, 1},      {1, 7, 5},     {7, 1, 5},
                                   {7, 5, 1},     {1, 1, 33},    {1, 33, 31},   {1, 1025, 300}, {33, 1, 31},   {9, 33, 1},
                                   {300, 1, 70},  {3, 4, 5},     {16, 17, 15},  {31, 33, 3},    {2, 600, 4},   {40, 50, 60},
                                   {65, 129, 33}, {2, 41, 300},  {5, 70, 65},   {31, 13, 64},   {8, 66, 127},  {15, 32, 40},
                                   {29, 65, 17},  {14, 31, 600}, {257, 70, 9},  {300, 33, 520}, {20, 2100, 3}, {260, 2080, 5},
                                   {433, 40, 64}, {505, 40, 64}, {506, 8200, 2}};
  agree_on_products(tested, &Routines<T>::gemm, sizes, 24, 24, [](int option) {
    return Factors<T>{option < 8 ? T(1) : T(-0.5), option < 8 ? T(0) : option < 16 ? T(1) : T(0.25)};
  });
  // A zero alpha leaves beta c, whatever a and b hold.
  const std::vector<T> poison(600, nan<T>);
  for (const i64 m : {1, 2, 20}) {
    const auto c = random<T>(m * 20);
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.gemm(false, false, m, 20, 20, 0, poison.data(), 20, poison.data(), 20, 2, out.copy(c), 20);
      r.gemm(false, false, m, 20, 20, 0, poison.data(), 20, poison.data(), 20, 0, out.fresh(m * 20), 20);
    });
  }
}

CONFORMANCE(gemm_bf16) {  // the last as of gemm, and with AMX
  const std::vector<Size> sizes = {{0, 3, 4},      {3, 4, 0},     {1, 1, 1},      {1, 7, 5},     {7, 1, 5},
                                   {7, 5, 1},      {1, 33, 31},   {33, 1, 31},    {16, 17, 15},  {31, 33, 3},
                                   {2, 600, 4},    {32, 32, 32},  {65, 129, 33},  {5, 70, 65},   {15, 32, 40},
                                   {14, 31, 1100}, {20, 2100, 3}, {260, 2080, 5}, {520, 33, 34}, {33, 64, 2050},
                                   {433, 40, 64},  {505, 40, 64}, {1025, 33, 40}, {506, 8200, 2}};
  agree_on_products(tested, &Routines<T>::gemm_bf16, sizes, 12, 8, [](int option) {
    return Factors<T>{option < 8 ? T(1) : T(-0.5), option < 4 ? T(0) : T(0.25)};
  });
  // Infinities and NaN come through; numbers next to a tie go where the nearest even is; subnormal ones are 0.
  const T inf = std::numeric_limits<T>::infinity();
  const std::vector<T> awkward = {inf, -inf, nan<T>, T(1.00390625), T(1.01171875), T(1.0039063), T(-1e-39), T(3.4e38)};
  const std::vector<T> one(40 * 40, T(1));
  for (const T x : awkward) {
    std::vector<T> a(40 * 40, T(0));
    a[0] = x;
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.gemm_bf16(false, false, 40, 40, 40, 1, a.data(), 40, one.data(), 40, 0, out.fresh(1600), 40);
    });
  }
}

CONFORMANCE(gemm_batched) {
  const std::vector<BatchSize> sizes = {
      {0, 2, 3, 4},     {5, 0, 3, 4},      {3, 2, 3, 0},     {1, 3, 4, 5},     {7, 1, 33, 14},   {7, 1, 14, 65},
      {40, 1, 128, 14}, {40, 1, 14, 1025}, {40, 14, 129, 1}, {5, 14, 1, 33},   {9, 14, 14, 33},  {33, 16, 17, 31},
      {2, 20, 30, 40},  {4, 70, 66, 65},   {3, 1, 1, 1025},  {64, 33, 64, 33}, {300, 2, 2, 200}, {2, 260, 260, 260}};
  for (const BatchSize& size : sizes) {
    const i64 batch = size.batch, m = size.m, n = size.n, k = size.k;
    for (int option = 0; option < 32; ++option) {
      const bool ta = option & 1, tb = option & 2, repeat_a = option & 4, repeat_b = option & 8;
      const i64 slack = option & 16 ? 3 : 0;
      const T alpha = T(0.5), beta = slack ? T(1) : T(0);
      const i64 lda = (ta ? m : k) + slack, ldb = (tb ? k : n) + slack, ldc = n + slack;
      const i64 size_a = (ta ? k : m) * lda, size_b = (tb ? n : k) * ldb, size_c = m * ldc;
      const auto a = random<T>((repeat_a ? 1 : batch) * size_a), b = random<T>((repeat_b ? 1 : batch) * size_b);
      const auto c = random<T>(batch * size_c);
      INFO(batch, ": ", m, " ", n, " ", k, " option ", option);
      agree(
          tested,
          [&](const Routines<T>& r, Outputs<T>& out) {
            r.gemm_batched(ta, tb, m, n, k, alpha, a.data(), lda, repeat_a ? 0 : size_a, b.data(), ldb, repeat_b ? 0 : size_b,
                           beta, beta == 0 ? out.fresh(batch * size_c) : out.copy(c), ldc, size_c, batch);
          },
          20, false);
      if (m * n * k > 1000000 && option >= 3) break;  // v1 is slow
    }
  }
}

}  // namespace seqgrad::kernels::test
