// Fused recurrent operations against the same recurrence composed of primitive operations, row by row and step by step, so that
// padding cannot leak: values and all gradients, over the settings that break loops over sequences.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops.h"
#include "tensor/random.h"

namespace seqgrad::test {

struct State {
  Var h, c;  // c undefined where the cell has none
};
using Step = std::function<State(const Var& x, const State& state, const RecurrentWeights& w)>;
using Sequence =
    std::function<RecurrentOutput(const Var& x, const State& initial, const RecurrentWeights& w, const Tensor& lengths, bool)>;

inline RecurrentOutput composed(const Step& step, bool has_cell, const Var& x, const State& initial, const RecurrentWeights& w,
                                const Tensor& lengths, bool reverse) {
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  const Var zero = x.tape().constant(zeros({1, hidden}, x.dtype()));
  const auto row_of = [&](const Var& v, i64 b) { return v.defined() ? slice(v, 0, b, b + 1) : zero; };
  std::vector<Var> outputs, last, last_cells;
  for (i64 b = 0; b < batch; ++b) {
    const i64 length = lengths.defined() ? lengths.data<i64>()[b] : steps;
    State state{row_of(initial.h, b), has_cell ? row_of(initial.c, b) : Var()};
    std::vector<Var> row(static_cast<std::size_t>(steps), zero);
    for (i64 i = 0; i < length; ++i) {
      const i64 t = reverse ? length - 1 - i : i;
      state = step(select(row_of(x, b), 1, t), state, w);
      row[static_cast<std::size_t>(t)] = state.h;
    }
    outputs.push_back(reshape(stack(row, 1), {1, steps, hidden}));
    last.push_back(state.h);
    if (has_cell) last_cells.push_back(state.c);
  }
  const Var nothing = sum(x) * 0.0;  // so that rows without a step are still recorded
  return {cat(outputs, 0) + nothing, cat(last, 0) + nothing, has_cell ? cat(last_cells, 0) + nothing : Var()};
}

struct Setting {
  i64 batch, steps, in, hidden;
  std::vector<i64> lengths;  // empty: all full
  bool reverse, with_states;
  int used;          // bits: output, h_n, c_n get a gradient
  double scale = 1;  // of the input
};

inline const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {3, 4, 2, 3, {}, false, false, 7},
      {3, 4, 2, 3, {}, true, true, 7},
      {4, 5, 3, 2, {5, 4, 2, 1}, false, true, 7},  // sorted
      {4, 5, 3, 2, {2, 5, 1, 4}, false, true, 7},  // unsorted
      {4, 5, 3, 2, {2, 5, 1, 4}, true, true, 7},
      {4, 5, 3, 2, {0, 5, 0, 3}, false, true, 7},  // lengths of 0
      {4, 5, 3, 2, {3, 0, 2, 0}, true, false, 7},
      {2, 3, 2, 2, {0, 0}, false, true, 7},
      {3, 6, 2, 3, {4, 1, 3}, true, true, 1},  // nobody reaches the last steps
      {3, 6, 2, 3, {4, 1, 3}, false, true, 2},
      {3, 6, 2, 3, {4, 1, 3}, false, true, 4},
      {1, 1, 1, 1, {}, false, true, 7},
      {1, 7, 1, 1, {6}, true, false, 2},
      {2, 3, 5, 17, {3, 2}, false, true, 7},  // wider than a vector register
      {3, 4, 2, 3, {2, 4, 1}, false, true, 7, 300},
      {1, 3, 2, 5, {}, true, false, 7, 300},  // saturated
  };
  return all;
}

// Output, h_n, c_n and every gradient. Strided cotangents are transposed views.
inline std::vector<Tensor> results(const Setting& s, i64 gates, bool has_cell, DType dtype, const Sequence& run,
                                   bool strided = false) {
  Generator generator(8);
  const auto normal = [&](const Dims& shape) { return randn(shape, DType::f64, generator).to(dtype); };
  const auto cotangent = [&](const Dims& shape) {
    const Tensor x = normal(shape);
    return strided ? x.transpose(0, 1).clone().transpose(0, 1) : x;
  };
  Tape tape;
  const i64 rows = gates * s.hidden;
  Var x = tape.leaf(normal({s.batch, s.steps, s.in}));
  const RecurrentWeights w{tape.leaf(normal({rows, s.in})), tape.leaf(normal({rows, s.hidden})), tape.leaf(normal({rows})),
                           tape.leaf(normal({rows}))};
  std::vector<Var> leaves{x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh};
  State initial;
  if (s.with_states) leaves.push_back(initial.h = tape.leaf(normal({s.batch, s.hidden})));
  if (s.with_states && has_cell) leaves.push_back(initial.c = tape.leaf(normal({s.batch, s.hidden})));
  const Tensor lengths = s.lengths.empty() ? Tensor() : Tensor::from(s.lengths, {s.batch});
  const RecurrentOutput out = run(s.scale == 1 ? x : x * s.scale, initial, w, lengths, s.reverse);
  const Tensor dy = cotangent({s.batch, s.steps, s.hidden}), dh = cotangent({s.batch, s.hidden}),
               dc = cotangent({s.batch, s.hidden});
  std::vector<Var> outputs;
  std::vector<Tensor> cotangents, all{out.output.value().clone(), out.h_n.value().clone()};
  const auto use = [&](int bit, const Var& v, const Tensor& d) {
    if (!v.defined() || !(s.used & bit)) return;
    outputs.push_back(v);
    cotangents.push_back(d);
  };
  use(1, out.output, dy);
  use(2, out.h_n, dh);
  use(4, out.c_n, dc);
  if (has_cell) all.push_back(out.c_n.value().clone());
  if (!outputs.empty()) tape.backward(outputs, cotangents);
  for (const Var& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

// The largest difference between two lists of tensors, relative where numbers are above 1; NaN stays.
inline double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    REQUIRE(a[k].shape() == b[k].shape());
    const std::vector<double> x = a[k].to(DType::f64).to_vector<double>(), y = b[k].to(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::fabs(x[i] - y[i]) / std::max(1.0, std::fabs(y[i]));
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

inline void check_fused(i64 gates, bool has_cell, const Sequence& fused, const Step& step) {
  const Sequence plain = [&](const Var& x, const State& initial, const RecurrentWeights& w, const Tensor& lengths,
                             bool reverse) { return composed(step, has_cell, x, initial, w, lengths, reverse); };
  for (std::size_t i = 0; i < settings().size(); ++i) {
    CAPTURE(i);
    const Setting& s = settings()[i];
    const std::vector<Tensor> expected = results(s, gates, has_cell, DType::f64, plain);
    CHECK(difference(results(s, gates, has_cell, DType::f64, fused), expected) <= 1e-12);
    CHECK(difference(results(s, gates, has_cell, DType::f64, fused, true), expected) <= 1e-12);
    if (s.scale == 1) CHECK(difference(results(s, gates, has_cell, DType::f32, fused), expected) <= 2e-5);
  }
}

// Beyond a row's length the output is exactly 0, the state stays, and what stands in the padding reaches nothing.
inline void check_padding(i64 gates, const Sequence& fused) {
  Generator generator(1);
  const auto normal = [&](const Dims& shape) { return randn(shape, DType::f64, generator); };
  Tape tape;
  const Tensor data = normal({2, 4, 3}), lengths = Tensor::from<i64>({2, 3}, {2});
  const RecurrentWeights w{tape.leaf(normal({2 * gates, 3})), tape.leaf(normal({2 * gates, 2})), tape.leaf(normal({2 * gates})),
                           tape.leaf(normal({2 * gates}))};
  for (const bool reverse : {false, true}) {
    const Var x = tape.leaf(data);
    const RecurrentOutput out = fused(x, {}, w, lengths, reverse);
    for (i64 b = 0; b < 2; ++b)
      for (const double y : out.output.value().select(0, b).slice(0, lengths.data<i64>()[b], 4).to_vector<double>())
        CHECK(y == 0);
    CHECK(out.h_n.value().at({0, 1}) == out.output.value().at({0, reverse ? 0 : 1, 1}));
    const Tensor changed = data.clone();
    changed.select(0, 0).slice(0, 2, 4).fill(std::nan(""));
    const RecurrentOutput other = fused(tape.leaf(changed), {}, w, lengths, reverse);
    CHECK(other.output.value().to_vector<double>() == out.output.value().to_vector<double>());
    CHECK(other.h_n.value().to_vector<double>() == out.h_n.value().to_vector<double>());
    tape.backward(sum(out.output) + sum(out.h_n));
    for (const double g : x.grad().select(0, 0).slice(0, 2, 4).to_vector<double>()) CHECK(g == 0);
  }
}

}  // namespace seqgrad::test
