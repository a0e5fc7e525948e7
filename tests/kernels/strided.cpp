#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

CONFORMANCE(fill) {
  for (const i64 n : lengths) agree(tested, [&](const Routines<T>& r, Outputs<T>& out) { r.fill(out.fresh(n), T(2.5), n); });
  agree(tested, [&](const Routines<T>& r, Outputs<T>& out) { r.fill(out.fresh(large), T(2.5), large); });
}

CONFORMANCE(affine) {
  for (const i64 n : {i64{0}, i64{1}, i64{7}, i64{33}, i64{1023}, large}) {
    const auto x = random<T>(n);
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.affine(x.data(), out.fresh(n), T(-2), T(0.5), n);
      T* y = out.copy(x);
      r.affine(y, y, T(3), T(0), n);
    });
  }
}

struct View {
  std::vector<i64> shape, x, y;  // strides
};

static i64 extent(const std::vector<i64>& shape, const std::vector<i64>& strides) {
  i64 last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

static const std::vector<View> views = {
    {{}, {}, {}},                                                // a scalar
    {{0, 3}, {3, 1}, {3, 1}},                                    // nothing
    {{1}, {1}, {1}},                                             //
    {{33}, {1}, {1}},                                            //
    {{33}, {2}, {3}},                                            // both scattered
    {{33}, {0}, {1}},                                            // one value repeated
    {{7, 33}, {33, 1}, {33, 1}},                                 // mergeable
    {{7, 33}, {40, 1}, {35, 1}},                                 // padded rows
    {{7, 33}, {1, 7}, {33, 1}},                                  // transposed
    {{33, 7}, {7, 1}, {1, 33}},                                  //
    {{7, 33}, {0, 1}, {33, 1}},                                  // a row repeated
    {{7, 33}, {1, 0}, {33, 1}},                                  // a column repeated
    {{3, 4, 5, 6}, {120, 30, 6, 1}, {120, 6, 24, 1}},            // heads
    {{3, 4, 5, 6}, {1, 3, 12, 60}, {120, 30, 6, 1}},             // reversed
    {{3, 1, 65, 17}, {65 * 17, 5, 1, 65}, {65 * 17, 9, 17, 1}},  // batched transposition
    {{2, 3, 1, 4}, {24, 8, 1, 2}, {12, 4, 4, 1}},                // every second element
    {{300, 301}, {301, 1}, {1, 300}},                            // large: the threads share them
    {{300, 301}, {310, 1}, {305, 1}},                            //
    {{70001}, {1}, {2}},                                         //
    {{2, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32, 64, 128, 256}, {256, 128, 64, 32, 16, 8, 4, 2, 1}},
};

CONFORMANCE(copy_strided) {
  for (const View& view : views) {
    INFO("view ", &view - views.data());
    const auto x = random<T>(extent(view.shape, view.x));
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.copy_strided(x.data(), view.x.data(), out.fresh(extent(view.shape, view.y)), view.y.data(), view.shape.data(),
                     static_cast<i64>(view.shape.size()));
    });
  }
}

// The same views without and with zeros among the strides of y.
CONFORMANCE(add_strided) {
  std::vector<View> all = views;
  for (const View& view : views) {
    for (unsigned zeros = 1; zeros < 1u << std::min<size_t>(view.shape.size(), 4); ++zeros) {
      View reducing = view;
      for (size_t i = 0; i < view.shape.size(); ++i) {
        if (zeros >> i & 1) reducing.y[i] = 0;
      }
      all.push_back(reducing);
    }
  }
  all.push_back({{5000, 40}, {40, 1}, {0, 1}});     // a bias: rows into a vector
  all.push_back({{500, 1500}, {1500, 1}, {0, 1}});  //
  all.push_back({{20000, 3}, {3, 1}, {0, 1}});      //
  all.push_back({{500, 1500}, {1500, 1}, {0, 2}});  //
  all.push_back({{7, 9000}, {9000, 1}, {1, 0}});    // rows into a column
  all.push_back({{9000, 7}, {7, 1}, {1, 0}});       //
  all.push_back({{50, 40, 100}, {1, 5000, 50}, {0, 1, 0}});
  all.push_back({{300000}, {1}, {0}});
  all.push_back({{300000}, {3}, {0}});
  all.push_back({{3, 300000}, {0, 1}, {1, 0}});
  for (const View& view : all) {
    INFO("view ", &view - all.data());
    const auto x = random<T>(extent(view.shape, view.x));
    const auto y = random<T>(std::max<i64>(1, extent(view.shape, view.y)));
    agree(
        tested,
        [&](const Routines<T>& r, Outputs<T>& out) {
          r.add_strided(T(-0.5), x.data(), view.x.data(), out.copy(y), view.y.data(), view.shape.data(),
                        static_cast<i64>(view.shape.size()));
        },
        100);
  }
}

CONFORMANCE(max_reduce) {
  for (const i64 inner : {1, 2, 17, 40}) {
    for (const i64 n : {1, 2, 16, 33, 1025}) {
      for (const i64 outer : {0, 1, 5}) {
        auto x = random<T>(outer * n * inner);
        for (T& value : x) value = std::round(value * 4) / 4;  // ties
        for (size_t i = 0; i < x.size(); i += 5) {
          if (outer == 5 && i % 3 == 0) x[i] = i % 2 ? nan<T> : -std::numeric_limits<T>::infinity();
        }
        agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
          T* y = out.fresh(outer * inner);
          r.max_reduce(x.data(), y, out.ids(outer * inner), outer, n, inner);
        });
      }
    }
  }
  const std::vector<T> lowest(40, -std::numeric_limits<T>::infinity());
  agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
    T* y = out.fresh(1);
    r.max_reduce(lowest.data(), y, out.ids(1), 1, 40, 1);
  });
}

CONFORMANCE(max_reduce_backward) {
  for (const i64 inner : {1, 3, 33, 5000}) {
    const i64 outer = 7, n = 5;
    const auto dy = random<T>(outer * inner), dx = random<T>(outer * n * inner);
    const auto index = random_ids(outer * inner, n);
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.max_reduce_backward(dy.data(), index.data(), out.copy(dx), outer, n, inner);
    });
  }
}

CONFORMANCE(norm_and_clip) {
  std::vector<i64> sizes = lengths;
  sizes.push_back(1000003);
  for (const i64 n : sizes) {
    const auto x = random<T>(n);
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      for (const double max_norm : {0.0, 1.0, 1e6}) {
        std::vector<double> result(2, -1);
        r.norm_and_clip(x.data(), n, max_norm, result.data());
        T* const both = out.fresh(2);
        both[0] = static_cast<T>(result[0]);
        both[1] = static_cast<T>(result[1]);
      }
    });
  }
  for (const T bad : {std::numeric_limits<T>::infinity(), nan<T>}) {
    const std::vector<T> x = {1, bad, 2};
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      std::vector<double> result(2, -1);
      r.norm_and_clip(x.data(), 3, 1, result.data());
      T* const both = out.fresh(2);
      both[0] = static_cast<T>(result[0]);
      both[1] = static_cast<T>(result[1]);
    });
  }
}

TEST_CASE("a sum of ten million floats keeps its digits") {
  std::vector<float> x = random<float>(10000000, 0.01);
  double exact = 0;
  for (float& value : x) exact += value += 1;
  const i64 n = static_cast<i64>(x.size()), one = 1, zero = 0;
  const i64 shape[2] = {n / 1000, 1000}, rows[2] = {1000, 1}, into_row[2] = {0, 1};
  const auto check = [&](const char* name, const Routines<float>& r) {
    INFO(name);
    std::vector<float> y(1);
    r.add_strided(1, x.data(), &one, y.data(), &zero, &n, 1);
    CHECK(std::abs(y[0] - exact) < 1e-6 * exact);
    std::vector<float> row(1000);
    r.add_strided(1, x.data(), rows, row.data(), into_row, shape, 2);
    double total = 0;
    for (const float value : row) total += value;
    CHECK(std::abs(total - exact) < 1e-6 * exact);
    std::vector<double> norm(2);
    std::fill(x.begin(), x.begin() + 4096, 3000.0f);
    r.norm_and_clip(x.data(), 4096, 0, norm.data());
    CHECK(norm[0] == 64 * 3000);
    std::fill(x.begin(), x.begin() + 4096, 1.0f);
  };
  for (size_t i = 0; i < 4096; ++i) {
    exact += 1 - static_cast<double>(x[i]);
    x[i] = 1;
  }
  check("v1", v1_routines<float>());
  for (const Level& level : levels()) check(level.name.c_str(), level.floats);
}

}  // namespace seqgrad::kernels::test
