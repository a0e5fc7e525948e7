// What a search does at every step: products with weights laid out once, looks at the source, the largest of rows.
#include <numeric>

#include "kernels/packed.h"
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

struct Product {
  i64 rows, n, k;
};

// A weight (n, k), or, transposed, (k, n), and the routines that lay it out and multiply with it.
template <class T>
struct PackedRoutines {
  std::vector<T> (*pack)(const Routines<T>& r, bool transposed, const std::vector<T>& w, i64 ld, i64 n, i64 k);
  decltype(Routines<T>::packed_linear) Routines<T>::*multiply;
};

template <class T>
static std::vector<T> packed(const Routines<T>& r, bool, const std::vector<T>& w, i64 ld, i64 n, i64 k) {
  std::vector<T> result(static_cast<size_t>(packed_size(n, k)), nan<T>);
  r.pack_linear(w.data(), ld, result.data(), n, k);
  return result;
}
template <class T>
static std::vector<T> packed_bf16(const Routines<T>& r, bool transposed, const std::vector<T>& w, i64 ld, i64 n, i64 k) {
  std::vector<T> result(static_cast<size_t>(packed_size(n, k)), nan<T>);
  r.pack_linear_bf16(transposed, w.data(), ld, result.data(), n, k);
  return result;
}

template <class T>
static void agree_on_packed_products(const Routines<T>& tested, PackedRoutines<T> routines, bool transposed) {
  const std::vector<Product> sizes = {{0, 3, 4},   {3, 0, 4},    {3, 4, 0},    {1, 1, 1},     {1, 33, 5},    {2, 31, 7},
                                      {5, 17, 3},  {6, 64, 300}, {7, 16, 1},   {13, 32, 256}, {14, 33, 257}, {15, 65, 511},
                                      {29, 15, 2}, {64, 97, 64}, {1, 600, 70}, {70, 130, 600}};
  for (const Product& size : sizes) {
    const i64 rows = size.rows, n = size.n, k = size.k;
    for (int option = 0; option < 8; ++option) {
      const bool accumulate = option & 1;
      const i64 slack = option & 2 ? 3 : 0, w_rows = transposed ? k : n, w_cols = transposed ? n : k, ld = w_cols + slack;
      auto x = random<T>(rows * (k + slack)), w = random<T>(w_rows * ld);
      for (i64 r = 0; slack && r < rows; ++r) x[static_cast<size_t>(r * (k + slack) + k)] = nan<T>;
      for (i64 r = 0; slack && r < w_rows; ++r) w[static_cast<size_t>(r * ld + w_cols)] = nan<T>;
      const auto bias = random<T>(n), y = random<T>(rows * (n + slack));
      INFO(rows, " ", n, " ", k, " option ", option);
      agree(
          tested,
          [&](const Routines<T>& r, Outputs<T>& out) {
            const auto weight = routines.pack(r, transposed, w, ld, n, k);
            T* result = accumulate || slack ? out.copy(y) : out.fresh(rows * n);
            (r.*routines.multiply)(x.data(), k + slack, weight.data(), option & 4 ? bias.data() : nullptr, accumulate, result,
                                   n + slack, rows, n, k);
          },
          4);
    }
  }
  // A row's bits depend neither on the other rows nor on their number.
  const i64 rows = 31, n = 70, k = 300;
  const auto x = random<T>(rows * k), w = random<T>(n * k), bias = random<T>(n);
  const auto weight = routines.pack(tested, transposed, w, transposed ? n : k, n, k);
  const auto multiply = tested.*routines.multiply;
  std::vector<T> all(static_cast<size_t>(rows * n)), part(all.size());
  multiply(x.data(), k, weight.data(), bias.data(), false, all.data(), n, rows, n, k);
  for (i64 count = 1; count <= rows; ++count) {
    const i64 from = rows - count;
    multiply(x.data() + from * k, k, weight.data(), bias.data(), false, part.data(), n, count, n, k);
    REQUIRE(std::equal(part.begin(), part.begin() + count * n, all.begin() + from * n));
  }
}

CONFORMANCE(packed_linear) { agree_on_packed_products<T>(tested, {packed<T>, &Routines<T>::packed_linear}, false); }
CONFORMANCE(pack_linear) { packed_linear_case::run(tested); }

CONFORMANCE(packed_linear_bf16) {
  agree_on_packed_products<T>(tested, {packed_bf16<T>, &Routines<T>::packed_linear_bf16}, false);
  agree_on_packed_products<T>(tested, {packed_bf16<T>, &Routines<T>::packed_linear_bf16}, true);
}
CONFORMANCE(pack_linear_bf16) { packed_linear_bf16_case::run(tested); }

// Rows that look at positions of their own, or at the same, as the hypotheses of a sentence do.
struct Looks {
  static constexpr i64 positions = 60, ld = 41;
  std::vector<i64> lengths, first;
  i64 dim, rows;

  Looks(std::vector<i64> l, i64 d) : lengths(std::move(l)), dim(d), rows(static_cast<i64>(lengths.size())) {
    for (i64 r = 0; r < rows; ++r) first.push_back(r % 2 ? 0 : positions - lengths[static_cast<size_t>(r)]);
  }
  static std::vector<Looks> shapes() { return {{{}, 3}, {{1}, 1}, {{3, 1, 17}, 7}, {{5, 5}, 128}, {{40, 2, 9, 1}, 1025}}; }
};

CONFORMANCE(attend) {
  for (const Looks& look : Looks::shapes()) {
    const i64 rows = look.rows, ld = Looks::ld, ld_query = look.dim + 2;
    const auto keys = random<T>(Looks::positions * look.dim), query = random<T>(rows * ld_query), v = random<T>(look.dim);
    for (int option = 0; option < 3; ++option) {
      INFO(rows, " rows, option ", option);
      const auto run = [&](const Routines<T>& r, i64 from, i64 count, T* weights) {
        r.attend(query.data() + from * ld_query, ld_query, option == 2 ? nullptr : keys.data(),
                 option == 1 ? v.data() : nullptr, T(0.25), look.first.data() + from, look.lengths.data() + from, weights, ld,
                 count, look.dim);
      };
      const std::vector<T> before(static_cast<size_t>(rows * ld), T(-3));
      agree(
          tested, [&](const Routines<T>& r, Outputs<T>& out) { run(r, 0, rows, out.copy(before)); }, 100);
      // A row's bits are those that it has alone.
      std::vector<T> together = before;
      run(tested, 0, rows, together.data());
      for (i64 r = 0; r < rows; ++r) {
        std::vector<T> alone(static_cast<size_t>(ld), T(-3));
        run(tested, r, 1, alone.data());
        REQUIRE(std::equal(alone.begin(), alone.end(), together.begin() + r * ld));
      }
    }
  }
}

CONFORMANCE(mix_rows) {
  for (const Looks& look : Looks::shapes()) {
    const i64 rows = look.rows, ld = Looks::ld, ld_values = look.dim + 3, ld_y = look.dim + 1;
    const auto weights = random<T>(rows * ld), values = random<T>(Looks::positions * ld_values),
               before = random<T>(rows * ld_y);
    for (const bool accumulate : {false, true}) {
      INFO(rows, " rows, accumulate ", accumulate);
      const auto run = [&](const Routines<T>& r, i64 from, i64 count, T* y) {
        r.mix_rows(weights.data() + from * ld, ld, values.data(), ld_values, look.first.data() + from,
                   look.lengths.data() + from, accumulate, y, ld_y, count, look.dim);
      };
      agree(
          tested, [&](const Routines<T>& r, Outputs<T>& out) { run(r, 0, rows, out.copy(before)); }, 100);
      std::vector<T> together = before;
      run(tested, 0, rows, together.data());
      for (i64 r = 0; r < rows; ++r) {
        std::vector<T> alone(before.begin() + r * ld_y, before.begin() + (r + 1) * ld_y);
        run(tested, r, 1, alone.data());
        REQUIRE(std::equal(alone.begin(), alone.end(), together.begin() + r * ld_y));
      }
    }
  }
  // The equation; without accumulate, what y held is not read.
  const std::vector<T> weights{2, T(0.5)}, values{1, 10, 100, 3, 30, 300};
  const std::vector<i64> first{1, 0}, lengths{1, 1};
  std::vector<T> y{nan<T>, nan<T>, nan<T>, 5, 5, 5};
  tested.mix_rows(weights.data(), 1, values.data(), 3, first.data(), lengths.data(), false, y.data(), 3, 1, 3);
  tested.mix_rows(weights.data() + 1, 1, values.data(), 3, first.data() + 1, lengths.data() + 1, true, y.data() + 3, 3, 1, 3);
  CHECK(y == std::vector<T>{6, 60, 600, T(5.5), 10, 55});
}

CONFORMANCE(top_of_rows) {
  struct Shape {
    i64 rows, cols, k;
  };
  const T infinity = std::numeric_limits<T>::infinity();
  for (const Shape& shape : {Shape{0, 5, 2}, Shape{3, 1, 1}, Shape{2, 7, 7}, Shape{4, 16, 3}, Shape{5, 33, 1}, Shape{3, 65, 8},
                             Shape{4, 1025, 5}, Shape{70, 1023, 1}}) {
    const i64 rows = shape.rows, cols = shape.cols, k = shape.k;
    for (int option = 0; option < 4; ++option) {
      auto x = random<T>(rows * cols, option == 1 ? 300 : 1);
      if (option == 2)  // ties
        for (T& value : x) value = std::round(value);
      if (option == 3) {  // infinities and NaNs, one of them alone in its row
        for (size_t i = 0; i < x.size(); i += 3) x[i] = -infinity;
        if (rows > 1) x[static_cast<size_t>(cols - 1)] = nan<T>;
        for (i64 i = 0; rows > 2 && i < cols; i += 2) x[static_cast<size_t>(2 * cols + i)] = nan<T>;
      }
      INFO(rows, " ", cols, " ", k, " option ", option);
      for (const bool normalize : {false, true})
        agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
          T* y = out.fresh(rows * k);
          r.top_of_rows(x.data(), normalize, y, out.ids(rows * k), rows, cols, k);
        });
    }
  }
  // The equation, by sorting.
  const i64 cols = 40, k = 6;
  const auto x = random<T>(cols);
  std::vector<i64> order(static_cast<size_t>(cols)), index(static_cast<size_t>(k));
  std::iota(order.begin(), order.end(), i64{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](i64 a, i64 b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
  std::vector<T> y(static_cast<size_t>(k)), log_p(x.size());
  tested.top_of_rows(x.data(), true, y.data(), index.data(), 1, cols, k);
  v1::log_softmax(x.data(), log_p.data(), i64{1}, cols);
  for (size_t i = 0; i < y.size(); ++i) {
    CHECK(index[i] == order[i]);
    CHECK(y[i] == doctest::Approx(log_p[static_cast<size_t>(order[i])]).epsilon(1e-5));
  }
}

}  // namespace seqgrad::kernels::test
