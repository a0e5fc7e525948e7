// nn::GRU, fused, against its composed step over time: values and gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "nn/recurrent.h"

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

struct Root : Module {};

// One layer in one direction, row by row and step by step, so that padding cannot enter.
RecurrentOutput composed_layer(const Var& x, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  const Var zero = x.tape().constant(zeros({1, hidden}, x.dtype()));
  std::vector<Var> outputs, finals;
  for (i64 b = 0; b < batch; ++b) {
    const i64 length = lengths.defined() ? lengths.data<i64>()[b] : steps;
    Var h = zero;
    std::vector<Var> row(static_cast<std::size_t>(steps), zero);
    for (i64 i = 0; i < length; ++i) {
      const i64 t = reverse ? length - 1 - i : i;
      h = row[static_cast<std::size_t>(t)] = composed_step(Cell::gru, select(slice(x, 0, b, b + 1), 1, t), {h}, w).h;
    }
    outputs.push_back(reshape(stack(row, 1), {1, steps, hidden}));
    finals.push_back(h);
  }
  return {cat(outputs, 0), cat(finals, 0)};
}

GRU::Output composed(const GRU& gru, i64 layers, bool bidirectional, const Var& x, const Tensor& lengths) {
  GRU::Output result{x, {}};
  for (i64 layer = 0; layer < layers; ++layer) {
    std::vector<Var> outputs;
    for (bool reverse : bidirectional ? std::vector{false, true} : std::vector{false}) {
      const RecurrentOutput out = composed_layer(result.output, gru.weights(x.tape(), layer, reverse), lengths, reverse);
      outputs.push_back(out.output);
      result.h_n.push_back(out.h_n);
    }
    result.output = cat(outputs, -1);
  }
  return result;
}

// Relative where numbers are above 1.
double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Values x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(x[i] - y[i]) / std::max(1.0, std::fabs(y[i]));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace

TEST_CASE("parameters are PyTorch's by name, shape and order") {
  Root root;
  GRU gru(root, "gru", 3, 4, 2, true);
  Generator generator(1);
  ParameterBlock block(root, DType::f32, generator);
  std::size_t i = 0;
  for (const char* layer : {"0", "0_reverse", "1", "1_reverse"})
    for (const auto& [name, width] : std::vector<std::pair<std::string, i64>>{
             {"weight_ih_l", *layer == '0' ? 3 : 8}, {"weight_hh_l", 4}, {"bias_ih_l", 0}, {"bias_hh_l", 0}}) {
      REQUIRE(i < block.parameters().size());
      CHECK(block.parameters()[i]->name == "gru." + name + layer);
      CHECK(block.parameters()[i++]->value.shape() == (width ? Dims{12, width} : Dims{12}));
    }
  CHECK(i == block.parameters().size());
  Root one;
  GRU small(one, "", 2, 2);
  CHECK(small.parameters().size() == 4);
  CHECK(small.parameters()[3]->name == "bias_hh_l0");
}

TEST_CASE("the layer is the composed cell over time") {
  struct Setting {
    i64 batch, steps, input, hidden, layers;
    bool bidirectional;
    std::vector<i64> lengths;  // empty: all full
  };
  const std::vector<Setting> settings{{3, 4, 2, 3, 1, false, {}},          {3, 4, 2, 3, 1, false, {4, 2, 1}},
                                      {4, 5, 3, 2, 1, true, {2, 5, 1, 4}}, {2, 3, 3, 4, 2, false, {1, 3}},
                                      {3, 5, 4, 3, 2, true, {5, 3, 2}},    {4, 3, 2, 5, 2, true, {1, 3, 1, 2}},
                                      {1, 1, 1, 1, 2, true, {1}},          {1, 6, 2, 9, 2, true, {}}};
  for (std::size_t k = 0; k < settings.size(); ++k) {
    CAPTURE(k);
    const Setting& s = settings[k];
    Root root;
    GRU gru(root, "gru", s.input, s.hidden, s.layers, s.bidirectional);
    Generator generator(k + 1);
    ParameterBlock block(root, DType::f64, generator);
    const Tensor lengths = s.lengths.empty() ? Tensor() : Tensor::from(s.lengths, {s.batch});
    const Tensor x = randn({s.batch, s.steps, s.input}, DType::f64, generator);
    const Tensor dy = randn({s.batch, s.steps, s.hidden * (s.bidirectional ? 2 : 1)}, DType::f64, generator);
    const Tensor dh = randn({s.layers * (s.bidirectional ? 2 : 1), s.batch, s.hidden}, DType::f64, generator);
    const auto results = [&](bool fused) {
      block.zero_grad();
      Tape tape;
      Mode mode = Mode::evaluation();
      const Var input = tape.leaf(x);
      const GRU::Output out = fused ? gru(input, lengths, mode) : composed(gru, s.layers, s.bidirectional, input, lengths);
      const std::vector<Var> outputs{out.output, stack(out.h_n, 0)};
      tape.backward(outputs, std::vector{dy, dh});
      return std::vector<Tensor>{out.output.value(), outputs[1].value(), input.grad(), block.gradients().clone()};
    };
    const std::vector<Tensor> ours = results(true), plain = results(false);
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(difference(ours[i], plain[i]) <= 1e-12);
  }
}

TEST_CASE("one fused step is one composed step") {
  for (i64 hidden : {1, 3, 16, 17}) {
    Root root;
    GRU gru(root, "gru", 4, hidden);
    Generator generator(7);
    ParameterBlock block(root, DType::f64, generator);
    const Tensor x = randn({5, 4}, DType::f64, generator), h = randn({5, hidden}, DType::f64, generator);
    const Tensor dy = randn({5, hidden}, DType::f64, generator);
    const auto results = [&](bool fused) {
      block.zero_grad();
      Tape tape;
      const Var a = tape.leaf(x), b = tape.leaf(h);
      const RecurrentWeights w = gru.weights(tape);
      const Var y =
          (fused ? step(Cell::gru, linear(a, w.weight_ih, w.bias_ih), {b}, w) : composed_step(Cell::gru, a, {b}, w)).h;
      tape.backward({&y, 1}, {&dy, 1});
      return std::vector<Tensor>{y.value(), a.grad(), b.grad(), block.gradients().clone()};
    };
    const std::vector<Tensor> ours = results(true), plain = results(false);
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(difference(ours[i], plain[i]) <= 1e-12);
  }
}

TEST_CASE("dropout acts between layers only") {
  const auto run = [](i64 layers, bool training) {
    Root root;
    GRU gru(root, "gru", 2, 6, layers, true, 0.5);
    Generator generator(3);
    ParameterBlock block(root, DType::f64, generator);
    Tape tape;
    Mode mode = training ? Mode::training_step(1, 0) : Mode::evaluation();
    const GRU::Output out = gru(tape.constant(randn({2, 3, 2}, DType::f64, generator)), {}, mode);
    CHECK(mode.next_stream == static_cast<u64>(training ? layers - 1 : 0));
    return std::pair{out.h_n[0].value().to_vector<double>(), out.output.value().to_vector<double>()};
  };
  CHECK(run(1, true) == run(1, false));
  CHECK(run(3, true).first == run(3, false).first);  // the first layer's state
  CHECK(run(3, true).second != run(3, false).second);
}
