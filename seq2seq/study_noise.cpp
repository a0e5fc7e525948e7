// Studies of keys with noisy lengths: lambda_i ~ N(1, beta), beta the variance. What one query loses, and two heads give back.
//
// With q = c (k_a + k_b) the scores are s_a = c lambda_a^2 / sqrt d, s_b likewise, and 0 for the others. Expectations over
// (lambda_a, lambda_b) are integrals over the plane, computed by the trapezoidal rule (which for smooth integrands that vanish
// at the ends converges faster than any power of the step) and held against means over samples that the tape computes.
#include <algorithm>
#include <array>

#include "seq2seq/study_tools.h"

namespace seqgrad::seq2seq {
namespace {

// Weights of the keys a and b and of each of the others.
struct Weights {
  double a, b, other;
};

Weights one_query(double score_a, double score_b, double others) {
  const double top = std::max({score_a, score_b, 0.0});
  const double a = std::exp(score_a - top), b = std::exp(score_b - top), other = std::exp(-top);
  const double sum = a + b + others * other;
  return {a / sum, b / sum, other / sum};
}

// The mean of two heads, one with q = c k_a and one with q = c k_b.
Weights two_heads(double score_a, double score_b, double others) {
  const auto head = [&](double score) { return 1 / (1 + (others + 1) * std::exp(-score)); };
  const double a = head(score_a), b = head(score_b), n = others + 1;
  return {(a + (1 - b) / n) / 2, (b + (1 - a) / n) / 2, ((1 - a) / n + (1 - b) / n) / 2};
}

using Kind = Weights (*)(double score_a, double score_b, double others);

constexpr int points = 1201;  // of the integrals, in each direction
constexpr double reach = 9, step = 2 * reach / (points - 1);

// At lambda = 1 a score changes by 2 c sigma step / sqrt d from one point to the next. Up to 1 the rule's error is below 1e-8:
// a logistic function of slope s has its poles pi / s off the axis, and the error goes as exp(-2 pi (pi / s) / step).
void check_noisy(const StudyOptions& options) {
  check_study_options(options, 3);
  const double most = std::sqrt(static_cast<double>(options.d) / options.beta) / (2 * step);
  std::vector<double> all = options.sweep;
  all.push_back(options.c);
  for (const double c : all)
    if (c > most)
      throw_error("c is {}: with d {} and beta {} it must be at most {:.0f}, or the expectations are not exact", c, options.d,
                  options.beta, std::floor(most));
}

// E[f(weights)] for several f at once.
template <std::size_t count, class F>
std::array<double, count> expectation(Kind kind, const StudyOptions& options, double c, F&& f) {
  const double root = std::sqrt(static_cast<double>(options.d)), sigma = std::sqrt(options.beta);
  std::vector<double> density, score;
  for (int i = 0; i < points; ++i) {
    const double z = -reach + step * i, lambda = 1 + sigma * z;
    density.push_back(step * std::exp(-z * z / 2) / std::sqrt(2 * M_PI));
    score.push_back(c * lambda * lambda / root);
  }
  std::array<double, count> sum{};
  for (std::size_t i = 0; i < density.size(); ++i)
    for (std::size_t j = 0; j < density.size(); ++j) {
      const auto values = f(kind(score[i], score[j], static_cast<double>(options.m - 2)));
      for (std::size_t p = 0; p < count; ++p) sum[p] += density[i] * density[j] * values[p];
    }
  return sum;
}

// |context - (v_a + v_b) / 2|^2 from the weights, through the values' products with each other.
class SquaredDistance {
 public:
  explicit SquaredDistance(const Tensor& v) : rest_(zeros({1, v.size(1)}, DType::f64)) {
    std::vector<double> all(static_cast<std::size_t>(v.size(0)), 1);
    all[0] = all[1] = 0;
    rest_ = combine(all, v);
    parts_ = {combine({1}, v.slice(0, 0, 1)), combine({1}, v.slice(0, 1, 2)), rest_};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        products_[i][j] = 0;
        for (i64 p = 0; p < v.size(1); ++p) products_[i][j] += parts_[i].at({0, p}) * parts_[j].at({0, p});
      }
  }
  double operator()(const Weights& w) const {
    const double x[] = {w.a - 0.5, w.b - 0.5, w.other};
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) sum += x[i] * x[j] * products_[i][j];
    return sum;
  }
  double between_values() const { return products_[0][0] - 2 * products_[0][1] + products_[1][1]; }

 private:
  Tensor rest_;
  std::array<Tensor, 3> parts_;
  double products_[3][3];
};

// v_i = e_i: the context is then the weights, and all distances between values are the same.
Tensor unit_values(i64 m) {
  const Tensor v = zeros({m, m}, DType::f64);
  for (i64 i = 0; i < m; ++i) v.mutable_data<double>()[i * m + i] = 1;
  return v;
}

struct Sample {
  double lambda_a, lambda_b;
  const double* weights;  // m
  const double* context;  // dv
};

// Draws keys of noisy lengths and shows each sample's attention, computed on the tape for many samples at once, to `see`.
// heads: 1 for the query c (k_a + k_b), 2 for the mean of the heads c k_a and c k_b.
template <class See>
void draw(const StudyOptions& options, double c, const Tensor& k, const Tensor& v, int heads, See&& see) {
  NoGrad values_only;
  Tape tape;
  Generator generator(options.seed, 1);
  const i64 m = options.m, d = options.d, most = 256;
  const double sigma = std::sqrt(options.beta);
  for (i64 done = 0; done < options.samples; done += most) {
    const i64 batch = std::min(most, options.samples - done);
    tape.clear();
    const Tensor lambda({batch, m, 1}, DType::f64);
    double* lengths = lambda.mutable_data<double>();
    for (i64 i = 0; i < batch * m; ++i) lengths[i] = 1 + sigma * generator.normal();
    const Var keys = tape.constant(lambda) * tape.constant(k);  // (B, m, d)
    const Var values = expand(unsqueeze(tape.constant(v), 0), {batch, m, v.size(1)});
    const Var a = slice(keys, 1, 0, 1), b = slice(keys, 1, 1, 2);  // (B, 1, d)
    const auto look = [&](const Var& q) {
      const Var weights = softmax(matmul(q, transpose(keys)) / std::sqrt(static_cast<double>(d)));  // (B, 1, m)
      return std::pair{weights, matmul(weights, values)};
    };
    std::pair<Var, Var> seen = heads == 1 ? look(c * (a + b)) : look(c * a);
    if (heads == 2) {
      const auto second = look(c * b);
      seen = {0.5 * (seen.first + second.first), 0.5 * (seen.second + second.second)};
    }
    const std::vector<double> weights = seen.first.value().to_vector<double>(),
                              context = seen.second.value().to_vector<double>();
    for (i64 i = 0; i < batch; ++i)
      see(Sample{lengths[i * m], lengths[i * m + 1], weights.data() + i * m, context.data() + i * v.size(1)});
  }
}

double squared_distance(const double* context, const Tensor& wanted) {
  double sum = 0;
  for (i64 p = 0; p < wanted.size(1); ++p) sum += std::pow(context[p] - wanted.at({0, p}), 2);
  return sum;
}

StudyRow mean_of(const std::string& what, double theory, const MonteCarlo& measured) {
  return {what, theory, measured.mean(), std::max(measured.standard_error(), 1e-15)};
}

std::vector<std::string> assumptions(const StudyOptions& options) {
  return {
      fmt::format("{} keys lambda_i mu_i in {} dimensions, mu_i orthonormal, lambda_i ~ N(1, {:g}): {:g} is the variance",
                  options.m, options.d, options.beta, options.beta),
      "values that are unit vectors at right angles to each other, so that |v_a - v_b|^2 / 4 = 1/2",
      fmt::format("{} samples; a mean is held to its theory within 3 standard errors (SE), which chance exceeds once in 370",
                  options.samples)};
}

}  // namespace

Study noisy_keys_study(const StudyOptions& options) {
  check_noisy(options);
  const double root = std::sqrt(static_cast<double>(options.d)), c = options.c, beta = options.beta;
  const double rivals = static_cast<double>(options.m - 2);
  Generator generator(options.seed);
  const Tensor k = orthonormal_rows(options.m, options.d, generator), v = unit_values(options.m);
  const Tensor wanted = combine({0.5, 0.5}, v.slice(0, 0, 2));
  const SquaredDistance off(v);

  Study study{"noisy-keys", "Averaging with noisy keys",
              "When the keys' lengths are noisy, the query c (k_a + k_b) no longer averages: alpha_a / alpha_b = "
              "exp(c (lambda_a^2 - lambda_b^2) / sqrt d), which a longer query only makes worse. The weights are equal in the "
              "mean, by symmetry, but not in any one sample: as c grows the context is nearly always one value or the other.",
              assumptions(options)};

  MonteCarlo squares, score, difference, squared_log, alpha, apart;
  double worst_log = 0;
  draw(options, c, k, v, 1, [&](const Sample& s) {
    const double a = s.weights[0], b = s.weights[1], exact = c * (s.lambda_a * s.lambda_a - s.lambda_b * s.lambda_b) / root;
    squares.add(s.lambda_a * s.lambda_a);
    score.add(c * s.lambda_a * s.lambda_a / root);
    difference.add(a - b);
    alpha.add(a);
    apart.add(squared_distance(s.context, wanted));
    squared_log.add(exact * exact);
    if (a > 1e-280 && b > 1e-280)
      worst_log = std::max(worst_log, std::fabs(std::log(a / b) - exact) / std::max(1.0, std::fabs(exact)));
  });
  const auto [expected_alpha, expected_other, expected_apart] = expectation<3>(one_query, options, c, [&](const Weights& w) {
    return std::array{w.a, w.other, off(w)};
  });
  const double variance_of_square = 2 * beta * beta + 4 * beta;  // of lambda^2
  study.tables.push_back(
      {fmt::format("At c = {:g}", c),
       {{"largest error of log(alpha_a/alpha_b), relative", 0, worst_log},
        mean_of("E[lambda^2] = 1 + beta", 1 + beta, squares),
        mean_of("E[s_a] = c (1 + beta) / sqrt d", c * (1 + beta) / root, score),
        mean_of("E[alpha_a - alpha_b] = 0", 0, difference),
        mean_of("E[log(alpha_a/alpha_b)^2] = 2 c^2 V[lambda^2]/d", 2 * c * c * variance_of_square / options.d, squared_log),
        mean_of("E[alpha_a]", expected_alpha, alpha),
        mean_of("E|context - (v_a + v_b)/2|^2", expected_apart, apart)}});

  StudyTable sweep{"How far the context is from the average, in the mean, by the query's length", {}};
  StudyPlot plot{"E|context - (v_a + v_b)/2|^2 by the query's length",
                 "c",
                 "squared distance",
                 {{"noisy, theory", {}}, {"noisy, measured", {}}, {"exact keys", {}}}};
  for (const double at : options.sweep) {
    MonteCarlo squared;
    draw(options, at, k, v, 1, [&](const Sample& s) { squared.add(squared_distance(s.context, wanted)); });
    const double theory = expectation<1>(one_query, options, at, [&](const Weights& w) { return std::array{off(w)}; })[0];
    sweep.rows.push_back(mean_of(fmt::format("c = {:g}", at), theory, squared));
    plot.curves[0].points.emplace_back(at, theory);
    plot.curves[1].points.emplace_back(at, squared.mean());
    plot.curves[2].points.emplace_back(at, off(one_query(at / root, at / root, rivals)));
  }
  study.tables.push_back(sweep);
  study.plots.push_back(plot);

  if (beta == 0 || c == 0) return study;  // nothing is noisy
  const double of_mean = one_query(c * (1 + beta) / root, c * (1 + beta) / root, rivals).a;
  study.beliefs.push_back({"The softmax of the expected scores is the expected softmax.",
                           fmt::format("softmax(E[s])_a = {:.6f}, E[softmax(s)_a] = {:.6f}.", of_mean, expected_alpha),
                           std::fabs(of_mean - expected_alpha) > 1e-9});
  study.beliefs.push_back(
      {"Noise of mean zero in the keys leaves the mean score as it was.",
       fmt::format("E[s_a] = c (1 + beta) / sqrt d = {:.6f}, without noise c / sqrt d = {:.6f}: the query is "
                   "made of the same noisy keys.",
                   c * (1 + beta) / root, c / root),
       true});
  std::vector<double> mean_weights(static_cast<std::size_t>(options.m), expected_other);
  mean_weights[0] = mean_weights[1] = expected_alpha;
  const double mean_off = distance(combine(mean_weights, v), wanted);
  study.beliefs.push_back(
      {"The mean context is (v_a + v_b) / 2, as the noise averages out.",
       fmt::format(
           "At c = {:g} the mean context is {:.2e} away from it, for the other keys keep a share of the weight; and one "
           "sample is {:.4f} away in the root mean square.",
           c, mean_off, std::sqrt(expected_apart)),
       mean_off > 1e-9 && expected_apart > mean_off * mean_off});
  return study;
}

Study two_heads_study(const StudyOptions& options) {
  check_noisy(options);
  const double root = std::sqrt(static_cast<double>(options.d)), others = static_cast<double>(options.m - 1);
  Generator generator(options.seed);
  const Tensor k = orthonormal_rows(options.m, options.d, generator), v = unit_values(options.m);
  const Tensor wanted = combine({0.5, 0.5}, v.slice(0, 0, 2));
  const SquaredDistance off(v);

  Study study{
      "two-heads", "Two heads, one key each",
      "Two heads with the queries c k_a and c k_b each select one key, and the mean of their outputs tends to (v_a + v_b) "
      "/ 2 as c grows. Selection only needs a score that is large enough, so that noise in the keys' lengths hardly "
      "matters: where one query for both keys ends up at one of the values, two heads stay at the average.",
      assumptions(options)};
  StudyTable exact{"Without noise: each head gives its key 1 / (1 + (m - 1) exp(-c / sqrt d))", {}};
  for (const double c : options.sweep) {
    const Attended a = attend(combine({c}, k.slice(0, 0, 1)), k, v), b = attend(combine({c}, k.slice(0, 1, 2)), k, v);
    const double share = 1 / (1 + others * std::exp(-c / root));
    exact.rows.push_back({fmt::format("first head's weight of k_a at c = {:g}", c), share, a.weights[0]});
    const Tensor mean = zeros({1, v.size(1)}, DType::f64);
    for (i64 p = 0; p < v.size(1); ++p) mean.mutable_data<double>()[p] = (a.context.at({0, p}) + b.context.at({0, p})) / 2;
    exact.rows.push_back({fmt::format("|context - (v_a + v_b)/2|^2 at c = {:g}", c),
                          off(two_heads(c / root, c / root, others - 1)), std::pow(distance(mean, wanted), 2)});
  }
  study.tables.push_back(exact);

  StudyTable noisy{"With noise: E|context - (v_a + v_b)/2|^2", {}};
  StudyPlot plot{"Squared distance from the average with noisy keys",
                 "c",
                 "E|context - (v_a + v_b)/2|^2",
                 {{"one query", {}}, {"two heads", {}}}};
  double one_at_c = 0, two_at_c = 0;
  std::vector<double> lengths = options.sweep;
  if (std::find(lengths.begin(), lengths.end(), options.c) == lengths.end()) lengths.push_back(options.c);
  for (const double c : lengths)
    for (const int heads : {1, 2}) {
      MonteCarlo squared;
      draw(options, c, k, v, heads, [&](const Sample& s) { squared.add(squared_distance(s.context, wanted)); });
      const double theory = expectation<1>(heads == 1 ? one_query : two_heads, options, c,
                                           [&](const Weights& w) { return std::array{off(w)}; })[0];
      noisy.rows.push_back(mean_of(fmt::format("{} at c = {:g}", heads == 1 ? "one query" : "two heads", c), theory, squared));
      plot.curves[static_cast<std::size_t>(heads - 1)].points.emplace_back(c, theory);
      if (c == options.c) (heads == 1 ? one_at_c : two_at_c) = squared.mean();
    }
  study.tables.push_back(noisy);
  study.plots.push_back(plot);
  if (options.beta > 0 && options.c / root > 2)
    study.beliefs.push_back(
        {"One query, chosen well, does what two heads do.",
         fmt::format("At c = {:g} one query is {:.4f} away in the mean square, two heads {:.4f}. As c grows the one goes to "
                     "|v_a - v_b|^2 / 4 = {:.4f}, the other to 0.",
                     options.c, one_at_c, two_at_c, off.between_values() / 4),
         two_at_c < one_at_c});
  return study;
}

}  // namespace seqgrad::seq2seq
