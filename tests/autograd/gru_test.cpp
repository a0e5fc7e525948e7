// The fused GRU against one written from primitive operations: values and all gradients.
#include <doctest/doctest.h>

#include <optional>

#include "autograd/ops.h"
#include "tensor/random.h"

using namespace seqgrad;

namespace {

// One row, one step, as the equations stand in autograd/ops/gru.cpp.
Var composed_step(const Var& x, const Var& h, const RecurrentWeights& w) {
  const i64 n = h.size(1);
  const Var gi = linear(x, w.weight_ih, w.bias_ih), gh = linear(h, w.weight_hh, w.bias_hh);
  const Var r = sigmoid(slice(gi, 1, 0, n) + slice(gh, 1, 0, n));
  const Var z = sigmoid(slice(gi, 1, n, 2 * n) + slice(gh, 1, n, 2 * n));
  const Var candidate = tanh(slice(gi, 1, 2 * n, 3 * n) + r * slice(gh, 1, 2 * n, 3 * n));
  return (1.0 - z) * candidate + z * h;
}

// Row by row and step by step, so that padding cannot leak.
RecurrentOutput composed(const Var& x, const Var& h0, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  Tape& tape = x.tape();
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  const Var zero = tape.constant(zeros({1, hidden}, x.dtype()));
  std::vector<Var> outputs, finals;
  for (i64 b = 0; b < batch; ++b) {
    const i64 length = lengths.defined() ? lengths.data<i64>()[b] : steps;
    Var h = h0.defined() ? slice(h0, 0, b, b + 1) : zero;
    std::vector<Var> row(static_cast<std::size_t>(steps), zero);
    for (i64 i = 0; i < length; ++i) {
      const i64 t = reverse ? length - 1 - i : i;
      h = composed_step(select(slice(x, 0, b, b + 1), 1, t), h, w);
      row[static_cast<std::size_t>(t)] = h;
    }
    outputs.push_back(reshape(stack(row, 1), {1, steps, hidden}));
    finals.push_back(h);
  }
  const Var nothing = sum(x) * 0.0;  // so that rows without a step are still recorded
  return {cat(outputs, 0) + nothing, cat(finals, 0) + nothing};
}

struct Setting {
  i64 batch, steps, in, hidden;
  std::vector<i64> lengths;  // empty: all full
  bool reverse, with_h0;
  int used;  // 1: output, 2: h_n, 3: both get a gradient
};

// Output, h_n and every gradient.
template <class Gru>
std::vector<Tensor> results(const Setting& s, DType dtype, Gru run) {
  Generator generator(8);
  const auto normal = [&](const Dims& shape) { return randn(shape, DType::f64, generator).to(dtype); };
  Tape tape;
  const Var x = tape.leaf(normal({s.batch, s.steps, s.in}));
  const RecurrentWeights w{tape.leaf(normal({3 * s.hidden, s.in})), tape.leaf(normal({3 * s.hidden, s.hidden})),
                           tape.leaf(normal({3 * s.hidden})), tape.leaf(normal({3 * s.hidden}))};
  const Var h0 = s.with_h0 ? tape.leaf(normal({s.batch, s.hidden})) : Var();
  const Tensor lengths = s.lengths.empty() ? Tensor() : Tensor::from(s.lengths, {s.batch});
  const RecurrentOutput out = run(x, h0, w, lengths, s.reverse);
  const Tensor dy = normal({s.batch, s.steps, s.hidden}), dh = normal({s.batch, s.hidden});
  const std::vector<Var> outputs = s.used == 1   ? std::vector{out.output}
                                   : s.used == 2 ? std::vector{out.h_n}
                                                 : std::vector{out.output, out.h_n};
  const std::vector<Tensor> cotangents = s.used == 1 ? std::vector{dy} : s.used == 2 ? std::vector{dh} : std::vector{dy, dh};
  tape.backward(outputs, cotangents);
  std::vector<Tensor> all{out.output.value(), out.h_n.value()};
  for (const Var& v : {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh}) all.push_back(v.grad());
  if (s.with_h0) all.push_back(h0.grad());
  return all;
}

}  // namespace

TEST_CASE("the fused GRU is the composed one") {
  const std::vector<Setting> settings{
      {3, 4, 2, 3, {}, false, false, 3},          {3, 4, 2, 3, {}, true, true, 3},
      {4, 5, 3, 2, {5, 4, 2, 1}, false, true, 3},                                              // sorted
      {4, 5, 3, 2, {2, 5, 1, 4}, false, true, 3},                                              // unsorted
      {4, 5, 3, 2, {2, 5, 1, 4}, true, true, 3},  {4, 5, 3, 2, {0, 5, 0, 3}, false, true, 3},  // lengths of 0
      {4, 5, 3, 2, {3, 0, 2, 0}, true, false, 3}, {2, 3, 2, 2, {0, 0}, false, true, 3},
      {3, 6, 2, 3, {4, 1, 3}, true, true, 1},  // nobody reaches the last steps
      {3, 6, 2, 3, {4, 1, 3}, false, true, 2},    {1, 1, 1, 1, {}, false, true, 3},
      {1, 7, 1, 1, {6}, true, false, 2},          {2, 3, 5, 17, {3, 2}, false, true, 3},  // wider than a vector register
  };
  const char* const parts[] = {"output", "h_n", "x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0"};
  for (std::size_t i = 0; i < settings.size(); ++i)
    for (DType dtype : {DType::f64, DType::f32}) {
      CAPTURE(i);
      const std::vector<Tensor> fused = results(settings[i], dtype, gru), plain = results(settings[i], DType::f64, composed);
      REQUIRE(fused.size() == plain.size());
      for (std::size_t k = 0; k < fused.size(); ++k) {
        const std::string part = parts[k];
        CAPTURE(part);
        const std::vector<double> a = fused[k].to(DType::f64).to_vector<double>(), b = plain[k].to_vector<double>();
        REQUIRE(a.size() == b.size());
        double worst = 0;
        for (std::size_t e = 0; e < a.size(); ++e) {
          const double error = std::fabs(a[e] - b[e]) / std::max(1.0, std::fabs(b[e]));
          if (!(error <= worst)) worst = error;
        }
        CHECK(worst <= (dtype == DType::f64 ? 1e-12 : 2e-5));
      }
    }
}

TEST_CASE("beyond a row's length the output is exactly 0 and padding reaches nothing") {
  Tape tape;
  Generator generator(1);
  const Tensor data = randn({2, 4, 3}, DType::f64, generator), lengths = Tensor::from<i64>({2, 3}, {2});
  const RecurrentWeights w{tape.leaf(randn({6, 3}, DType::f64, generator)), tape.leaf(randn({6, 2}, DType::f64, generator)),
                           tape.leaf(randn({6}, DType::f64, generator)), tape.leaf(randn({6}, DType::f64, generator))};
  for (bool reverse : {false, true}) {
    const Var x = tape.leaf(data);
    const RecurrentOutput out = gru(x, {}, w, lengths, reverse);
    for (i64 b = 0; b < 2; ++b)
      for (i64 t = lengths.data<i64>()[b]; t < 4; ++t) {
        CHECK(out.output.value().at({b, t, 0}) == 0);
        CHECK(out.output.value().at({b, t, 1}) == 0);
      }
    const i64 last = reverse ? 0 : 1;
    CHECK(out.h_n.value().at({0, 1}) == out.output.value().at({0, last, 1}));
    const Tensor changed = data.clone();
    changed.select(0, 0).slice(0, 2, 4).fill(1e6);
    const RecurrentOutput other = gru(tape.leaf(changed), {}, w, lengths, reverse);
    CHECK(other.output.value().to_vector<double>() == out.output.value().to_vector<double>());
    tape.backward(sum(out.output) + sum(out.h_n));
    for (double g : x.grad().select(0, 0).slice(0, 2, 4).to_vector<double>()) CHECK(g == 0);
  }
}
