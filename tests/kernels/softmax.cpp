#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

struct Shape {
  i64 rows, cols;
};
static const std::vector<Shape> row_shapes = {{0, 5},  {3, 1},  {5, 7},   {4, 16},   {4, 31},
                                              {3, 33}, {2, 65}, {2, 128}, {2, 1025}, {70, 1023}};
static const double scales[] = {1, 300, 1000};  // with the last two exp overflows unless the maximum is subtracted

template <class T>
static T infinity = std::numeric_limits<T>::infinity();

CONFORMANCE(softmax) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    for (const double scale : scales) {
      auto x = random<T>(rows * cols, scale);
      if (rows > 2 && cols > 1) x[0] = -infinity<T>, x[static_cast<size_t>(cols)] = nan<T>;
      agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
        r.softmax(x.data(), out.fresh(rows * cols), rows, cols);
        T* y = out.copy(x);
        r.softmax(y, y, rows, cols);
        r.log_softmax(x.data(), out.fresh(rows * cols), rows, cols);
        y = out.copy(x);
        r.log_softmax(y, y, rows, cols);
      });
    }
  }
  agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
    r.softmax(nullptr, out.fresh(0), 3, 0);
    r.log_softmax(nullptr, out.fresh(0), 3, 0);
  });
}
CONFORMANCE(log_softmax) { softmax_case::run(tested); }

CONFORMANCE(softmax_backward) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    const auto y = random<T>(rows * cols), dy = random<T>(rows * cols);
    agree(
        tested,
        [&](const Routines<T>& r, Outputs<T>& out) {
          r.softmax_backward(y.data(), dy.data(), out.fresh(rows * cols), rows, cols);
          T* dx = out.copy(dy);
          r.softmax_backward(y.data(), dx, dx, rows, cols);
          r.log_softmax_backward(y.data(), dy.data(), out.fresh(rows * cols), rows, cols);
          dx = out.copy(dy);
          r.log_softmax_backward(y.data(), dx, dx, rows, cols);
        },
        100);
  }
}
CONFORMANCE(log_softmax_backward) { softmax_backward_case::run(tested); }

CONFORMANCE(masked_softmax) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    for (const i64 repeat : {1, 2, 7}) {
      for (const double scale : scales) {
        const i64 masks = (rows + repeat - 1) / repeat;
        auto x = random<T>(rows * cols, scale);
        const auto mask = std::make_unique<bool[]>(static_cast<size_t>(masks * cols));
        for (i64 m = 0; m < masks; ++m) {  // one row is masked wholly, one not at all
          for (i64 i = 0; i < cols; ++i) mask[static_cast<size_t>(m * cols + i)] = m != 1 && (m == 2 || generator()() % 3 > 0);
        }
        for (i64 i = 0; i < rows * cols; ++i) {
          const bool keep = mask[static_cast<size_t>(i / cols / repeat * cols + i % cols)];
          if (!keep) x[static_cast<size_t>(i)] = i % 2 ? nan<T> : infinity<T>;
        }
        INFO(rows, " ", cols, " ", repeat, " ", scale);
        agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
          T* y = out.fresh(rows * cols);
          r.masked_softmax(x.data(), mask.get(), y, rows, cols, repeat);
          for (i64 i = 0; i < rows * cols; ++i) {
            const bool keep = mask[static_cast<size_t>(i / cols / repeat * cols + i % cols)];
            if (!keep) REQUIRE(y[i] == 0);
          }
        });
      }
    }
  }
}

CONFORMANCE(cross_entropy) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    for (const double scale : scales) {
      for (const T smoothing : {T(0), T(0.1)}) {
        auto logits = random<T>(rows * cols, scale);
        auto target = random_ids(rows, cols);
        for (size_t i = 1; i < target.size(); i += 2) target[i] = -100;
        for (i64 i = 0; i < cols && rows > 1; ++i) logits[static_cast<size_t>(cols + i)] = nan<T>;  // of an ignored row
        INFO(rows, " ", cols, " ", scale, " ", smoothing);
        agree(
            tested,
            [&](const Routines<T>& r, Outputs<T>& out) {
              r.cross_entropy(logits.data(), target.data(), out.fresh(rows), nullptr, rows, cols, -100, smoothing);
              T* loss = out.fresh(rows);
              r.cross_entropy(logits.data(), target.data(), loss, out.fresh(rows * cols), rows, cols, -100, smoothing);
              T* in_place = out.copy(logits);
              loss = out.fresh(rows);
              r.cross_entropy(in_place, target.data(), loss, in_place, rows, cols, -100, smoothing);
            },
            10);
      }
    }
  }
}

CONFORMANCE(layer_norm) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    auto x = random<T>(rows * cols, 3);
    const auto weight = random<T>(cols), bias = random<T>(cols);
    for (size_t i = 0; i < x.size() / 2; ++i) x[i] += 5;
    for (int option = 0; option < 4; ++option) {
      agree(
          tested,
          [&](const Routines<T>& r, Outputs<T>& out) {
            T *y = out.fresh(rows * cols), *mean = out.fresh(rows), *rstd = out.fresh(rows);
            r.layer_norm(x.data(), option & 1 ? weight.data() : nullptr, option & 2 ? bias.data() : nullptr, y, mean, rstd,
                         rows, cols, T(1e-5));
          },
          cols == 1 ? 1000 : 10);  // of one column only the rounding error is left
    }
  }
}

CONFORMANCE(layer_norm_backward) {
  for (const Shape& shape : row_shapes) {
    const i64 rows = shape.rows, cols = shape.cols;
    const auto x = random<T>(rows * cols), dy = random<T>(rows * cols), mean = random<T>(rows), rstd = random<T>(rows);
    const auto weight = random<T>(cols), dweight = random<T>(cols), dbias = random<T>(cols);
    for (int option = 0; option < 16; ++option) {
      agree(
          tested,
          [&](const Routines<T>& r, Outputs<T>& out) {
            T* dx = !(option & 8) ? nullptr : option & 1 ? out.copy(dy) : out.fresh(rows * cols);
            T* dw = option & 2 ? out.copy(dweight) : nullptr;
            T* db = option & 4 ? out.copy(dbias) : nullptr;
            const T* gradient = dx && option & 1 ? dx : dy.data();
            r.layer_norm_backward(gradient, x.data(), option & 1 ? weight.data() : nullptr, mean.data(), rstd.data(), dx, dw,
                                  db, rows, cols);
          },
          100);
    }
  }
}

}  // namespace seqgrad::kernels::test
