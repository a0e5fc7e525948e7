// Studies of one attention step with exact keys: selection and averaging.
#include <numeric>

#include "seq2seq/study_tools.h"

namespace seqgrad::seq2seq {

void check_study_options(const StudyOptions& options, i64 fewest_keys) {
  if (options.m < fewest_keys) throw_error("m is {}: it must be at least {}", options.m, fewest_keys);
  if (options.m > options.d) throw_error("m is {} but d is {}: more than d keys cannot be orthogonal", options.m, options.d);
  if (options.d > 4096) throw_error("d is {}: it must be at most 4096", options.d);
  if (!(options.beta >= 0 && options.beta <= 1)) throw_error("beta is {}: it must be between 0 and 1", options.beta);
  if (options.samples < 100 || options.samples > 100'000'000)
    throw_error("samples is {}: it must be between 100 and 100000000", options.samples);
  if (options.sweep.empty()) throw_error("the sweep has no value of c");
  std::vector<double> all = options.sweep;
  all.push_back(options.c);
  for (const double c : all)
    if (!(c >= 0 && c <= 1e6)) throw_error("c is {}: it must be between 0 and 1e6", c);
}

Tensor orthonormal_rows(i64 m, i64 d, Generator& generator) {
  const Tensor x = randn({m, d}, DType::f64, generator);
  double* row = x.mutable_data<double>();
  for (i64 i = 0; i < m; ++i) {
    double* a = row + i * d;
    for (int pass = 0; pass < 2; ++pass)
      for (i64 j = 0; j < i; ++j) {
        const double* b = row + j * d;
        const double dot = std::inner_product(a, a + d, b, 0.0);
        for (i64 p = 0; p < d; ++p) a[p] -= dot * b[p];
      }
    const double norm = std::sqrt(std::inner_product(a, a + d, a, 0.0));
    for (i64 p = 0; p < d; ++p) a[p] /= norm;
  }
  return x;
}

Attended attend(const Tensor& query, const Tensor& keys, const Tensor& values) {
  NoGrad values_only;
  Tape tape;
  const Var q = tape.constant(query);                                                                // (1, d)
  const Var k = tape.constant(keys);                                                                 // (m, d)
  const Var v = tape.constant(values);                                                               // (m, dv)
  const Var weights = softmax(matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(1))));  // (1, m)
  return {weights.value().to_vector<double>(), matmul(weights, v).value()};
}

Tensor combine(const std::vector<double>& factors, const Tensor& rows) {
  const Tensor sum = zeros({1, rows.size(1)}, DType::f64);
  double* out = sum.mutable_data<double>();
  for (i64 i = 0; i < rows.size(0); ++i)
    for (i64 j = 0; j < rows.size(1); ++j) out[j] += factors[static_cast<std::size_t>(i)] * rows.at({i, j});
  return sum;
}

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (i64 j = 0; j < a.size(1); ++j) sum += std::pow(a.at({0, j}) - b.at({0, j}), 2);
  return std::sqrt(sum);
}

Study selection_study(const StudyOptions& options) {
  check_study_options(options, 3);
  const i64 m = options.m, d = options.d;
  const double root = std::sqrt(static_cast<double>(d)), others = static_cast<double>(m - 1);
  const auto share = [&](double c) { return 1 / (1 + others * std::exp(-c / root)); };
  Generator generator(options.seed);
  const Tensor k = orthonormal_rows(m, d, generator), v = randn({m, 3}, DType::f64, generator);
  const auto query = [&](double c) { return combine({c}, k.slice(0, 0, 1)); };

  Study study{
      "selection",
      "Selection: one key out of many",
      "A query along key j gives it the weight alpha_j = 1 / (1 + sum over the others of exp(s_i - s_j)). It selects, that is "
      "alpha_j > 1/2, only when its score beats the logarithm of the sum of all the other exponentials, not merely the "
      "largest of them: with equal rivals, when c / sqrt(d) > log(m - 1).",
      {fmt::format("{} orthonormal keys in {} dimensions, scores scaled by 1/sqrt(d)", m, d),
       "the query is c times the wanted key, so that the rivals' scores are 0"}};

  StudyTable sweep{"The wanted key's weight by the query's length: 1 / (1 + (m - 1) exp(-c / sqrt d))", {}};
  StudyPlot plot{"The wanted key's weight", "c", "weight", {{"theory", {}}, {"measured", {}}}};
  for (const double c : options.sweep) {
    const double measured = attend(query(c), k, v).weights[0];
    sweep.rows.push_back({fmt::format("alpha_j at c = {:g}", c), share(c), measured});
    plot.curves[0].points.emplace_back(c, share(c));
    plot.curves[1].points.emplace_back(c, measured);
  }
  const double threshold = root * std::log(others);
  sweep.rows.push_back(
      {fmt::format("alpha_j at c = sqrt(d) log(m - 1) = {:.4f}", threshold), 0.5, attend(query(threshold), k, v).weights[0]});
  study.tables.push_back(sweep);
  study.plots.push_back(plot);

  // Any query and any lengths of the keys: the formula itself.
  StudyTable general{"Keys of random lengths, a random query: 1 / (1 + sum exp(s_i - s_j)) for each key", {}};
  std::vector<Tensor> scaled;
  const Tensor uneven({m, d}, DType::f64);
  std::vector<double> lengths;
  for (i64 i = 0; i < m; ++i) {
    lengths.push_back(std::exp(generator.normal()));
    uneven.slice(0, i, i + 1).copy_from(combine({lengths.back()}, k.slice(0, i, i + 1)));
  }
  std::vector<double> factors;
  for (i64 i = 0; i < m; ++i) factors.push_back(root * generator.normal());
  const Tensor q = combine(factors, k);
  const Attended mixed = attend(q, uneven, v);
  for (std::size_t j = 0; j < factors.size(); ++j) {
    double rivals = 0;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if (i != j) rivals += std::exp((factors[i] * lengths[i] - factors[j] * lengths[j]) / root);
    general.rows.push_back(
        {fmt::format("alpha_{} (score {:.3f})", j + 1, factors[j] * lengths[j] / root), 1 / (1 + rivals), mixed.weights[j]});
  }
  study.tables.push_back(general);

  // A long key that the query does not point along.
  const double length = 100;
  Tensor long_keys = k.clone();
  long_keys.slice(0, 1, 2).copy_from(combine({length}, k.slice(0, 1, 2)));
  const double long_weight = attend(query(options.c), long_keys, v).weights[1];
  const double rival = 1 / (others + std::exp(options.c / root));
  study.tables.push_back({"A key 100 times as long as the others, at a right angle to the query",
                          {{fmt::format("its weight at c = {:g}", options.c), rival, long_weight}}});
  study.beliefs.push_back({"A key with a large norm draws the attention.",
                           fmt::format("Key 2 is {:g} times as long as any other and gets {:.6f}, as much as each of the other "
                                       "rivals: only its part along the query counts.",
                                       length, long_weight),
                           std::fabs(long_weight - rival) < 1e-12});
  const double at_rival = std::log(2.0) * root;  // twice each rival's exponential
  const double beaten = attend(query(at_rival), k, v).weights[0];
  study.beliefs.push_back({"The key with the largest score is selected.",
                           fmt::format("At c = {:.3f} the wanted key's score is the largest by log 2, and yet the {} others "
                                       "together outweigh it: alpha_j = {:.4f}.",
                                       at_rival, m - 1, beaten),
                           m == 3 ? beaten <= 0.5 + 1e-12 : beaten < 0.5});
  return study;
}

Study averaging_study(const StudyOptions& options) {
  check_study_options(options, 3);
  const i64 m = options.m, d = options.d;
  const double root = std::sqrt(static_cast<double>(d)), rest = static_cast<double>(m - 2);
  Generator generator(options.seed);
  const Tensor k = orthonormal_rows(m, d, generator), v = randn({m, 3}, DType::f64, generator);
  const Tensor wanted = combine({0.5, 0.5}, v.slice(0, 0, 2));
  const auto query = [&](double c) { return combine({c, c}, k.slice(0, 0, 2)); };
  const auto share = [&](double c, double rivals) { return 1 / (2 + rivals * std::exp(-c / root)); };

  Study study{
      "averaging",
      "Averaging: one query for two keys",
      "The query c (k_a + k_b) gives both keys the same weight e / (2 e + m - 2) with e = exp(c / sqrt d), and each of the "
      "others 1 / (2 e + m - 2). The context tends to the average of the two values as c grows; c = 1 is far from it "
      "when there are other keys, for their weights add up.",
      {fmt::format("{} orthonormal keys in {} dimensions, scores scaled by 1/sqrt(d)", m, d)}};
  StudyTable sweep{"Weights by the query's length", {}};
  StudyPlot plot{"Distance of the context from (v_a + v_b) / 2", "c", "distance", {{"theory", {}}, {"measured", {}}}};
  double far = 0;
  for (const double c : options.sweep) {
    const Attended seen = attend(query(c), k, v);
    const double alpha = share(c, rest), other = alpha * std::exp(-c / root);
    std::vector<double> weights(static_cast<std::size_t>(m), other);
    weights[0] = weights[1] = alpha;
    const double theory = distance(combine(weights, v), wanted), measured = distance(seen.context, wanted);
    sweep.rows.push_back({fmt::format("alpha_a at c = {:g}", c), alpha, seen.weights[0]});
    sweep.rows.push_back({fmt::format("alpha_b at c = {:g}", c), alpha, seen.weights[1]});
    sweep.rows.push_back({fmt::format("each other weight at c = {:g}", c), other, seen.weights[2]});
    sweep.rows.push_back({fmt::format("|context - (v_a + v_b)/2| at c = {:g}", c), theory, measured});
    plot.curves[0].points.emplace_back(c, theory);
    plot.curves[1].points.emplace_back(c, measured);
  }
  study.tables.push_back(sweep);
  study.plots.push_back(plot);

  StudyTable two{"Two keys and no others: 1/2 each, at any c", {}};
  for (const double c : {0.0, 1.0, options.c}) {
    const Attended seen = attend(query(c), k.slice(0, 0, 2), v.slice(0, 0, 2));
    two.rows.push_back({fmt::format("alpha_a at c = {:g}, m = 2", c), 0.5, seen.weights[0]});
  }
  study.tables.push_back(two);

  const Attended one = attend(query(1), k, v);
  far = 1 - one.weights[0] - one.weights[1];
  study.beliefs.push_back({"The query k_a + k_b averages the two values (c = 1).",
                           fmt::format("At c = 1 the other {} keys hold {:.1f} % of the weight, and the context is {:.4f} away "
                                       "from the average.",
                                       m - 2, 100 * far, distance(one.context, wanted)),
                           far > 0.01});
  return study;
}

}  // namespace seqgrad::seq2seq
