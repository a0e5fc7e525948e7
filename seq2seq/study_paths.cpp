// The study of self-attention: how far a position's influence has to travel.
#include <algorithm>
#include <numeric>

#include "nn/multi_head_attention.h"
#include "nn/recurrent.h"
#include "seq2seq/study_tools.h"

namespace seqgrad::seq2seq {
namespace {

// A sequence that attends to itself: x (n, d) as queries, keys and values.
Var attend_to_itself(const Var& x, bool causal) {
  const Var sequence = unsqueeze(x, 0);
  return select(nn::scaled_dot_product(sequence, sequence, sequence, {}, causal).output, 0, 0);
}

// The Frobenius norms of d output_at / d x_j for all j, from a backward pass for each component of the output.
std::vector<double> influence(const Tensor& x, i64 at, const std::function<Var(Tape&, const Var&)>& f) {
  const i64 n = x.size(0);
  std::vector<double> squares(static_cast<std::size_t>(n));
  i64 components = 1;
  for (i64 p = 0; p < components; ++p) {
    Tape tape;
    const Var leaf = tape.leaf(x), row = select(f(tape, leaf), 0, at);
    components = row.size(0);
    const Tensor unit = zeros({components}, DType::f64);
    unit.mutable_data<double>()[p] = 1;
    tape.backward({&row, 1}, {&unit, 1});
    const Tensor gradient = leaf.grad();
    for (i64 j = 0; j < n; ++j)
      for (i64 q = 0; q < x.size(1); ++q) squares[static_cast<std::size_t>(j)] += std::pow(gradient.at({j, q}), 2);
  }
  for (double& square : squares) square = std::sqrt(square);
  return squares;
}

}  // namespace

Study self_attention_study(const StudyOptions& options) {
  check_study_options(options, 3);
  const i64 n = options.m, d = options.d;
  const double root = std::sqrt(static_cast<double>(d)), c = options.c, rest = static_cast<double>(n - 1);
  Generator generator(options.seed);
  const Tensor x({n, d}, DType::f64);
  {
    const Tensor u = orthonormal_rows(n, d, generator);
    for (i64 i = 0; i < n; ++i) x.slice(0, i, i + 1).copy_from(combine({std::sqrt(c)}, u.slice(0, i, i + 1)));
  }
  Study study{
      "self-attention",
      "Self-attention: any two positions are one step apart",
      "In self-attention each position reads every other in one step, so that the gradient from one position to another does "
      "not depend on the distance between them. In a recurrent network it passes through every state between the two.",
      {fmt::format("{} positions x_i of {} dimensions, orthogonal, |x_i|^2 = c, used as queries, keys and values at once", n,
                   d)}};

  const double own = 1 / (1 + rest * std::exp(-c / root)), other = own * std::exp(-c / root);
  {
    NoGrad values_only;
    Tape tape;
    const Var sequence = tape.constant(x.unsqueeze(0));
    const Tensor weights = nn::scaled_dot_product(sequence, sequence, sequence).weights.value();
    study.tables.push_back({"Weights",
                            {{"of a position on itself", own, weights.at({0, 0, 0})},
                             {"of the first on the second", other, weights.at({0, 0, 1})},
                             {"of the first on the last", other, weights.at({0, 0, n - 1})}}});
  }

  // d out_i / d x_j = alpha_ij (I + (x_j - out_i) x_i^T / sqrt d), i != j.
  const double squared = c * (std::pow(1 - other, 2) + own * own + (rest - 1) * other * other);  // |x_j - out_i|^2
  const double norm = other * std::sqrt(static_cast<double>(d) - 2 * own * c / root + squared * c / static_cast<double>(d));
  const std::vector<double> reach = influence(x, n - 1, [](Tape&, const Var& v) { return attend_to_itself(v, false); });
  StudyTable gradients{"|d output_n / d x_j|, by distance n - j: alpha_nj |I + (x_j - out_n) x_n^T / sqrt d|", {}};
  StudyPlot plot{"Influence on the last position, beside that of its neighbour",
                 "distance",
                 "|d output / d x_j|, relative",
                 {{"self-attention", {}}, {"recurrent (tanh)", {}}, {"recurrent (GRU)", {}}}};
  for (i64 distance = 1; distance < n; ++distance) {
    const double measured = reach[static_cast<std::size_t>(n - 1 - distance)];
    gradients.rows.push_back({fmt::format("distance {}", distance), norm, measured});
    plot.curves[0].points.emplace_back(distance, measured / reach[static_cast<std::size_t>(n - 2)]);
  }
  study.tables.push_back(gradients);

  std::string decays;
  bool decayed = true;
  for (const nn::Cell cell : {nn::Cell::rnn, nn::Cell::gru}) {
    const i64 width = nn::gate_count(cell) * d;
    const double bound = 1 / root;
    const Tensor w_ih = rand({width, d}, -bound, bound, DType::f64, generator),
                 w_hh = rand({width, d}, -bound, bound, DType::f64, generator);
    const std::vector<double> norms = influence(x, n - 1, [&](Tape& tape, const Var& v) {
      const RecurrentWeights w{tape.constant(w_ih), tape.constant(w_hh), tape.constant(zeros({width}, DType::f64)),
                               tape.constant(zeros({width}, DType::f64))};
      return select(nn::sequence(cell, unsqueeze(v, 0), {}, w, {}, false).output, 0, 0);
    });
    const double nearest = norms[static_cast<std::size_t>(n - 2)], farthest = norms[0];
    for (i64 distance = 1; distance < n; ++distance)
      plot.curves[cell == nn::Cell::rnn ? 1 : 2].points.emplace_back(
          distance, norms[static_cast<std::size_t>(n - 1 - distance)] / nearest);
    decays += fmt::format("{}{} {:.1e}", decays.empty() ? "" : ", ", nn::module_name(cell), farthest / nearest);
    decayed = decayed && farthest < nearest;
  }
  study.plots.push_back(plot);

  // The order of the positions carries nothing; a causal mask lets nothing from later ones through.
  const auto output = [&](const Tensor& input, bool causal) {
    NoGrad values_only;
    Tape tape;
    return attend_to_itself(tape.constant(input), causal).value();
  };
  const Tensor reversed({n, d}, DType::f64);
  for (i64 i = 0; i < n; ++i) reversed.slice(0, i, i + 1).copy_from(x.slice(0, n - 1 - i, n - i));
  const Tensor straight = output(x, false), turned = output(reversed, false);
  double moved = 0;
  for (i64 i = 0; i < n; ++i) moved = std::max(moved, distance(straight.slice(0, i, i + 1), turned.slice(0, n - 1 - i, n - i)));
  const std::vector<double> causal = influence(x, 0, [](Tape&, const Var& v) { return attend_to_itself(v, true); });
  study.tables.push_back(
      {"Order and causality",
       {{"outputs of the reversed sequence, reversed back", 0, moved},
        {"influence of later positions, causal mask", 0, std::accumulate(causal.begin() + 1, causal.end(), 0.0)}}});
  if (n >= 4)
    study.beliefs.push_back(
        {"A recurrent network carries a gradient over any distance, as it has seen every position.",
         fmt::format("Over {} steps, beside one step, there remains of it: {}. Of self-attention's all.", n - 1, decays),
         decayed});
  return study;
}

}  // namespace seqgrad::seq2seq
