// Every cell: one step against plain loops of its equation, the fused step and the layer against the composed step over time.
#include "nn/recurrent.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

struct Root : Module {};

const std::vector<Cell> all_cells{Cell::gru, Cell::gru_reset_before, Cell::lstm, Cell::rnn};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Row {
  Values h, c;
};

// One row of one step, every sum written out.
Row plain_step(Cell cell, const Values& x, const Row& state, const RecurrentWeights& w) {
  const i64 hidden = static_cast<i64>(state.h.size());
  const auto sum = [](const Tensor& weight, const Tensor& bias, i64 row, const Values& v) {
    double total = bias.at({row});
    for (std::size_t k = 0; k < v.size(); ++k) total += weight.at({row, static_cast<i64>(k)}) * v[k];
    return total;
  };
  const auto in = [&](i64 gate, i64 j) { return sum(w.weight_ih.value(), w.bias_ih.value(), gate * hidden + j, x); };
  const auto back = [&](i64 gate, i64 j, const Values& h) {
    return sum(w.weight_hh.value(), w.bias_hh.value(), gate * hidden + j, h);
  };
  Row next = state;
  Values gated;  // r * h
  for (i64 j = 0; j < hidden && cell == Cell::gru_reset_before; ++j)
    gated.push_back(logistic(in(0, j) + back(0, j, state.h)) * state.h[static_cast<std::size_t>(j)]);
  for (i64 j = 0; j < hidden; ++j) {
    const auto at = static_cast<std::size_t>(j);
    if (cell == Cell::rnn) {
      next.h[at] = std::tanh(in(0, j) + back(0, j, state.h));
    } else if (cell == Cell::lstm) {
      const double i = logistic(in(0, j) + back(0, j, state.h)), f = logistic(in(1, j) + back(1, j, state.h));
      const double g = std::tanh(in(2, j) + back(2, j, state.h)), o = logistic(in(3, j) + back(3, j, state.h));
      next.c[at] = f * state.c[at] + i * g;
      next.h[at] = o * std::tanh(next.c[at]);
    } else {
      const double r = logistic(in(0, j) + back(0, j, state.h)), z = logistic(in(1, j) + back(1, j, state.h));
      const double n = std::tanh(in(2, j) + (cell == Cell::gru ? r * back(2, j, state.h) : back(2, j, gated)));
      next.h[at] = (1 - z) * n + z * state.h[at];
    }
  }
  return next;
}

// One layer in one direction, row by row and step by step, so that padding cannot enter.
RecurrentOutput composed_layer(Cell cell, const Var& x, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  const Var zero = x.tape().constant(zeros({1, hidden}, x.dtype()));
  std::vector<Var> outputs, last, last_cells;
  for (i64 b = 0; b < batch; ++b) {
    const i64 length = lengths.defined() ? lengths.data<i64>()[b] : steps;
    RecurrentState state{zero, cell == Cell::lstm ? zero : Var()};
    std::vector<Var> row(static_cast<std::size_t>(steps), zero);
    for (i64 i = 0; i < length; ++i) {
      const i64 t = reverse ? length - 1 - i : i;
      state = composed_step(cell, select(slice(x, 0, b, b + 1), 1, t), state, w);
      row[static_cast<std::size_t>(t)] = state.h;
    }
    outputs.push_back(reshape(stack(row, 1), {1, steps, hidden}));
    last.push_back(state.h);
    if (state.c.defined()) last_cells.push_back(state.c);
  }
  return {cat(outputs, 0), cat(last, 0), last_cells.empty() ? Var() : cat(last_cells, 0)};
}

Recurrent::Output composed(const Recurrent& layer, i64 layers, bool bidirectional, const Var& x, const Tensor& lengths) {
  Recurrent::Output result{x, {}};
  for (i64 k = 0; k < layers; ++k) {
    std::vector<Var> outputs;
    for (bool reverse : bidirectional ? std::vector{false, true} : std::vector{false}) {
      const RecurrentOutput out =
          composed_layer(layer.cell(), result.output, layer.weights(x.tape(), k, reverse), lengths, reverse);
      outputs.push_back(out.output);
      result.h_n.push_back(out.h_n);
      if (out.c_n.defined()) result.c_n.push_back(out.c_n);
    }
    result.output = cat(outputs, -1);
  }
  return result;
}

// Relative where numbers are above 1.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    REQUIRE(a[k].shape() == b[k].shape());
    const Values x = a[k].to_vector<double>(), y = b[k].to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::fabs(x[i] - y[i]) / std::max(1.0, std::fabs(y[i]));
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("recurrent parameters are PyTorch's by name, shape and order") {
  for (const Cell cell : all_cells) {
    Root root;
    Recurrent layer(root, module_name(cell), cell, 3, 4, 2, true);
    Generator generator(1);
    ParameterBlock block(root, DType::f32, generator);
    const i64 rows = gate_count(cell) * 4;
    std::size_t i = 0;
    for (const char* suffix : {"0", "0_reverse", "1", "1_reverse"})
      for (const auto& [name, width] : std::vector<std::pair<std::string, i64>>{
               {"weight_ih_l", *suffix == '0' ? 3 : 8}, {"weight_hh_l", 4}, {"bias_ih_l", 0}, {"bias_hh_l", 0}}) {
        REQUIRE(i < block.parameters().size());
        const Parameter& parameter = *block.parameters()[i++];
        CHECK(parameter.name == fmt::format("{}.{}{}", module_name(cell), name, suffix));
        CHECK(parameter.value.shape() == (width ? Dims{rows, width} : Dims{rows}));
        for (const float value : parameter.value.to_vector<float>()) CHECK(std::fabs(value) <= 0.5f);  // 1 / sqrt(4)
      }
    CHECK(i == block.parameters().size());
  }
  Root root;
  LSTM lstm(root, "lstm", 3, 4);
  RNN rnn(root, "rnn", 3, 4);
  GRU gru(root, "gru", 3, 4);
  CHECK(root.parameters().size() == 12);
  CHECK(root.parameter_count() == (4 + 1 + 3) * 4 * (3 + 4 + 2));
}

TEST_CASE("one step is the equation, composed and fused, values and gradients, also saturated") {
  for (const Cell cell : all_cells)
    for (const i64 hidden : {1, 3, 16, 17})
      for (const double scale : {1.0, 300.0}) {
        const std::string name = module_name(cell);
        CAPTURE(name);
        CAPTURE(hidden);
        Root root;
        Recurrent layer(root, "layer", cell, 4, hidden);
        Generator generator(7);
        ParameterBlock block(root, DType::f64, generator);
        const Tensor x = randn({5, 4}, DType::f64, generator), h = randn({5, hidden}, DType::f64, generator);
        const Tensor c = randn({5, hidden}, DType::f64, generator), dy = randn({hidden, 5}, DType::f64, generator);
        const auto results = [&](bool fused) {
          block.zero_grad();
          Tape tape;
          const Var leaf = tape.leaf(x), a = leaf * scale, b = tape.leaf(h), cells = tape.leaf(c);
          const RecurrentWeights w = layer.weights(tape);
          const RecurrentState state{b, cell == Cell::lstm ? cells : Var()};
          const RecurrentState out =
              fused ? step(cell, linear(a, w.weight_ih, input_bias(cell, w)), state, w) : composed_step(cell, a, state, w);
          std::vector<Var> outputs{out.h};
          if (out.c.defined()) outputs.push_back(out.c);
          tape.backward(outputs, std::vector<Tensor>(outputs.size(), dy.transpose(0, 1)));
          std::vector<Tensor> all{out.h.value(), leaf.grad(), b.grad(), cells.grad(), block.gradients().clone()};
          if (out.c.defined()) all.push_back(out.c.value());
          return all;
        };
        CHECK(difference(results(true), results(false)) <= 1e-12);
        Tape tape;
        const RecurrentWeights w = layer.weights(tape);
        const RecurrentState out =
            composed_step(cell, tape.constant(x) * scale, {tape.constant(h), cell == Cell::lstm ? tape.constant(c) : Var()}, w);
        for (i64 b = 0; b < 5; ++b) {
          Values row = x.select(0, b).to_vector<double>();
          for (double& value : row) value *= scale;
          const Row expected =
              plain_step(cell, row, {h.select(0, b).to_vector<double>(), c.select(0, b).to_vector<double>()}, w);
          for (i64 j = 0; j < hidden; ++j) {
            const auto at = static_cast<std::size_t>(j);
            CHECK(std::fabs(out.h.value().at({b, j}) - expected.h[at]) <= 1e-12);
            if (out.c.defined()) CHECK(std::fabs(out.c.value().at({b, j}) - expected.c[at]) <= 1e-12);
          }
        }
      }
}

TEST_CASE("every layer is its composed cell over time") {
  struct Setting {
    i64 batch, steps, input, hidden, layers;
    bool bidirectional;
    std::vector<i64> lengths;  // empty: all full
  };
  const std::vector<Setting> settings{{3, 4, 2, 3, 1, false, {}},          {3, 4, 2, 3, 1, false, {4, 2, 1}},
                                      {4, 5, 3, 2, 1, true, {2, 5, 1, 4}}, {2, 3, 3, 4, 2, false, {1, 3}},
                                      {3, 5, 4, 3, 2, true, {5, 3, 2}},    {4, 3, 2, 5, 2, true, {1, 0, 1, 2}},
                                      {1, 1, 1, 1, 2, true, {1}},          {1, 6, 2, 9, 2, true, {}}};
  for (const Cell cell : all_cells)
    for (std::size_t k = 0; k < settings.size(); ++k) {
      const std::string name = module_name(cell);
      CAPTURE(name);
      CAPTURE(k);
      const Setting& s = settings[k];
      Root root;
      Recurrent layer(root, "layer", cell, s.input, s.hidden, s.layers, s.bidirectional);
      Generator generator(k + 1);
      ParameterBlock block(root, DType::f64, generator);
      const i64 directions = s.bidirectional ? 2 : 1;
      const Tensor lengths = s.lengths.empty() ? Tensor() : Tensor::from(s.lengths, {s.batch});
      const Tensor x = randn({s.batch, s.steps, s.input}, DType::f64, generator);
      const Tensor dy = randn({s.batch, s.steps, s.hidden * directions}, DType::f64, generator);
      const Tensor dh = randn({s.layers * directions, s.batch, s.hidden}, DType::f64, generator);
      const Tensor dc = randn(dh.shape(), DType::f64, generator);
      const auto results = [&](bool fused) {
        block.zero_grad();
        Tape tape;
        Mode mode = Mode::evaluation();
        const Var input = tape.leaf(x);
        const Recurrent::Output out =
            fused ? layer(input, lengths, mode) : composed(layer, s.layers, s.bidirectional, input, lengths);
        std::vector<Var> outputs{out.output, stack(out.h_n, 0)};
        std::vector<Tensor> cotangents{dy, dh};
        CHECK(out.c_n.size() == (cell == Cell::lstm ? out.h_n.size() : 0));
        if (cell == Cell::lstm) {
          outputs.push_back(stack(out.c_n, 0));
          cotangents.push_back(dc);
        }
        tape.backward(outputs, cotangents);
        std::vector<Tensor> all{input.grad(), block.gradients().clone()};
        for (const Var& output : outputs) all.push_back(output.value());
        return all;
      };
      CHECK(difference(results(true), results(false)) <= 1e-12);
    }
}

TEST_CASE("dropout acts between layers only") {
  for (const Cell cell : all_cells) {
    const auto run = [&](i64 layers, bool training) {
      Root root;
      Recurrent layer(root, "layer", cell, 2, 6, layers, true, 0.5);
      Generator generator(3);
      ParameterBlock block(root, DType::f64, generator);
      Tape tape;
      Mode mode = training ? Mode::training_step(1, 0) : Mode::evaluation();
      const Recurrent::Output out = layer(tape.constant(randn({2, 3, 2}, DType::f64, generator)), {}, mode);
      CHECK(mode.next_stream == static_cast<u64>(training ? layers - 1 : 0));
      return std::pair{out.h_n[0].value().to_vector<double>(), out.output.value().to_vector<double>()};
    };
    CHECK(run(1, true) == run(1, false));
    CHECK(run(3, true).first == run(3, false).first);  // the first layer's state
    CHECK(run(3, true).second != run(3, false).second);
  }
}

TEST_CASE("a state leaves a tape and comes back") {
  Tape tape;
  const Tensor h = ones({2, 3}), c = zeros({2, 3});
  CHECK(RecurrentState{tape.constant(h)}.values().size() == 1);
  const RecurrentState lstm = RecurrentState::constants(tape, RecurrentState{tape.constant(h), tape.constant(c)}.values());
  CHECK(lstm.h.value().shares_memory_with(h));
  CHECK(lstm.c.value().shares_memory_with(c));
  CHECK(!RecurrentState::constants(tape, {h}).c.defined());
}

TEST_CASE("lengths that do not fit a step-by-step layer are refused") {
  Tape tape;
  const auto f = [&](const Dims& shape) { return tape.leaf(zeros(shape)); };
  CHECK_THROWS_WITH_AS(sequence(Cell::gru_reset_before, f({2, 4, 3}), {}, {f({6, 3}), f({6, 2}), f({6}), f({6})},
                                Tensor::from<i64>({1, 2, 3}, {3}), false),
                       "[gru] lengths (3) should be (2)", Error);
}
