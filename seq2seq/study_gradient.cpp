// Backpropagation through one attention step, by hand, by the tape and by finite differences.
#include <algorithm>

#include "seq2seq/study_tools.h"

namespace seqgrad::seq2seq {
namespace {

// Small matrices, for which loops read like the equations.
struct Matrix {
  i64 rows, columns;
  std::vector<double> x;
  Matrix(i64 r, i64 c) : rows(r), columns(c), x(static_cast<std::size_t>(r * c)) {}
  explicit Matrix(const Tensor& t) : rows(t.size(0)), columns(t.size(1)), x(t.to_vector<double>()) {}
  double& operator()(i64 i, i64 j) { return x[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(i64 i, i64 j) const { return x[static_cast<std::size_t>(i * columns + j)]; }
  Tensor tensor() const { return Tensor::from<double>(x, {rows, columns}); }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (i64 i = 0; i < c.rows; ++i)
    for (i64 j = 0; j < c.columns; ++j)
      for (i64 p = 0; p < a.columns; ++p) c(i, j) += a(i, p) * b(p, j);
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (i64 i = 0; i < a.rows; ++i)
    for (i64 j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

Matrix scaled(double factor, Matrix a) {
  for (double& x : a.x) x *= factor;
  return a;
}

Matrix softmax_row(const Matrix& s) {
  Matrix a(1, s.columns);
  const double top = *std::max_element(s.x.begin(), s.x.end());
  double sum = 0;
  for (i64 j = 0; j < s.columns; ++j) sum += a(0, j) = std::exp(s(0, j) - top);
  return scaled(1 / sum, a);
}

double inner(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.x.size(); ++i) sum += a.x[i] * b.x[i];
  return sum;
}

double largest_difference(const Matrix& a, const Tensor& b) {
  const std::vector<double> y = b.to_vector<double>();
  double worst = a.x.size() == y.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < y.size() && i < a.x.size(); ++i) worst = std::max(worst, std::fabs(a.x[i] - y[i]));
  return worst;
}

// Central differences of fourth order of a scalar function at x.
Matrix differences(Matrix x, const std::function<double(const Matrix&)>& f) {
  constexpr double h = 1e-3;
  Matrix gradient(x.rows, x.columns);
  for (std::size_t i = 0; i < x.x.size(); ++i) {
    const double at = x.x[i];
    const auto value = [&](double shift) {
      x.x[i] = at + shift;
      return f(x);
    };
    gradient.x[i] = (value(-2 * h) - 8 * value(-h) + 8 * value(h) - value(2 * h)) / (12 * h);
    x.x[i] = at;
  }
  return gradient;
}

}  // namespace

Study gradient_study(const StudyOptions& options) {
  check_study_options(options, 3);
  const i64 m = std::min<i64>(options.m, 4), d = std::min<i64>(options.d, 4), dv = 3;  // small enough to look at
  const double root = std::sqrt(static_cast<double>(d));
  Generator generator(options.seed);
  const Tensor q_ = randn({1, d}, DType::f64, generator), k_ = randn({m, d}, DType::f64, generator),
               v_ = randn({m, dv}, DType::f64, generator), g_ = randn({1, dv}, DType::f64, generator);

  // By hand.
  const Matrix q(q_), k(k_), v(v_), dcontext(g_);
  const Matrix s = scaled(1 / root, product(q, transposed(k)));  // (1, m)
  const Matrix a = softmax_row(s);                               // (1, m)
  const Matrix context = product(a, v);                          // (1, dv)
  const Matrix da = product(dcontext, transposed(v));            // d loss / d alpha = g v^T
  Matrix jacobian(m, m);                                         // diag(alpha) - alpha alpha^T
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < m; ++j) jacobian(i, j) = (i == j ? a(0, i) : 0) - a(0, i) * a(0, j);
  const Matrix ds = product(da, jacobian);
  const Matrix dv_ = product(transposed(a), dcontext);
  const Matrix dq = scaled(1 / root, product(ds, k));
  const Matrix dk = scaled(1 / root, product(transposed(ds), q));

  // By the tape.
  Tape tape;
  const Var tq = tape.leaf(q_), tk = tape.leaf(k_), tv = tape.leaf(v_);
  const Var ts = matmul(tq, transpose(tk)) / root;
  const Var ta = softmax(ts);
  const Var tc = matmul(ta, tv);
  tape.backward({&tc, 1}, {&g_, 1}, {.keep_gradients = true});

  // By differences of the loss, the rest of the step recomputed from each quantity on.
  const auto from_context = [&](const Matrix& x) { return inner(x, dcontext); };
  const auto from_alpha = [&](const Matrix& x) { return from_context(product(x, v)); };
  const auto from_scores = [&](const Matrix& x) { return from_alpha(softmax_row(x)); };

  Study study{
      "gradient",
      "Backpropagation through one attention step",
      "Every intermediate of one attention step with its gradient, from the equations: ds = (diag(alpha) - alpha alpha^T) "
      "dalpha, dq = ds k / sqrt d, dk = ds^T q / sqrt d, dv = alpha^T dcontext; the same numbers come from the tape and "
      "from finite differences.",
      {fmt::format("q (1, {}), k ({}, {}), v ({}, {}), all normal; loss = sum(context * g) with a random g, so that "
                   "d loss / d context = g",
                   d, m, d, m, dv)}};
  study.exhibits = {{"q", q_},
                    {"k", k_},
                    {"v", v_},
                    {"s = q k^T / sqrt d", s.tensor()},
                    {"alpha = softmax(s)", a.tensor()},
                    {"context = alpha v", context.tensor()},
                    {"dcontext = g", g_},
                    {"dalpha = g v^T", da.tensor()},
                    {"diag(alpha) - alpha alpha^T", jacobian.tensor()},
                    {"ds", ds.tensor()},
                    {"dq", dq.tensor()},
                    {"dk", dk.tensor()},
                    {"dv", dv_.tensor()}};
  study.tables.push_back({"Values: largest difference between the equations and the tape",
                          {{"s", 0, largest_difference(s, ts.value())},
                           {"alpha", 0, largest_difference(a, ta.value())},
                           {"context", 0, largest_difference(context, tc.value())}}});
  study.tables.push_back({"Gradients: largest difference between the equations and the tape",
                          {{"dcontext", 0, largest_difference(dcontext, tc.grad())},
                           {"dalpha", 0, largest_difference(da, ta.grad())},
                           {"ds", 0, largest_difference(ds, ts.grad())},
                           {"dq", 0, largest_difference(dq, tq.grad())},
                           {"dk", 0, largest_difference(dk, tk.grad())},
                           {"dv", 0, largest_difference(dv_, tv.grad())}}});
  // Differences of fourth order with h = 1e-3 are good to about 1e-11: to 1e-9 they must agree.
  StudyTable numeric{"Gradients: equations and finite differences agree in their first nine digits (1: all entries do)", {}};
  Measurement entries{"Gradients entry by entry", {{"", "equations", "tape", "finite differences"}, {}}};
  const auto agree = [&](const std::string& what, const Matrix& exact, const Tensor& tape, const Matrix& estimate) {
    for (i64 i = 0; i < tape.size(0); ++i)
      for (i64 j = 0; j < tape.size(1); ++j)
        entries.table.rows.push_back({fmt::format("{} ({}, {})", what, i, j), fmt::format("{:.12f}", exact(i, j)),
                                      fmt::format("{:.12f}", tape.at({i, j})), fmt::format("{:.12f}", estimate(i, j))});
    numeric.rows.push_back({fmt::format("{} (largest difference {:.1e})", what, largest_difference(exact, estimate.tensor())),
                            1, largest_difference(exact, estimate.tensor()) <= 1e-9 ? 1.0 : 0.0});
  };
  agree("dcontext", dcontext, tc.grad(), differences(context, from_context));
  agree("dalpha", da, ta.grad(), differences(a, from_alpha));
  agree("ds", ds, ts.grad(), differences(s, from_scores));
  agree("dq", dq, tq.grad(),
        differences(q, [&](const Matrix& x) { return from_scores(scaled(1 / root, product(x, transposed(k)))); }));
  agree("dk", dk, tk.grad(),
        differences(k, [&](const Matrix& x) { return from_scores(scaled(1 / root, product(q, transposed(x)))); }));
  agree("dv", dv_, tv.grad(), differences(v, [&](const Matrix& x) { return from_context(product(a, x)); }));
  study.tables.push_back(numeric);
  study.measurements.push_back(entries);

  double row_sums = 0;
  for (i64 i = 0; i < m; ++i) {
    double sum = 0;
    for (i64 j = 0; j < m; ++j) sum += jacobian(i, j);
    row_sums = std::max(row_sums, std::fabs(sum));
  }
  double ds_sum = 0;
  for (i64 j = 0; j < m; ++j) ds_sum += ds(0, j);
  study.tables.push_back({"Softmax does not see a constant added to all scores",
                          {{"largest row sum of its Jacobian", 0, row_sums}, {"sum of ds", 0, ds_sum}}});
  return study;
}

}  // namespace seqgrad::seq2seq
