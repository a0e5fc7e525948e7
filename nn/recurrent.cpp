#include "nn/recurrent.h"

#include <cmath>

#include "autograd/cases.h"

namespace seqgrad::nn {
namespace {

// Blocks begin..end of H columns each of gates (B, G).
Var blocks(const Var& gates, i64 hidden, i64 begin, i64 end) { return slice(gates, 1, begin * hidden, end * hidden); }

// The rows of a weight or bias that belong to blocks begin..end.
Var rows(const Var& weight, i64 hidden, i64 begin, i64 end) { return slice(weight, 0, begin * hidden, end * hidden); }

RecurrentState gru_reset_before_step(const Var& gi, const Var& h, const RecurrentWeights& w) {
  const i64 hidden = h.size(1);
  const Var rz = sigmoid(blocks(gi, hidden, 0, 2) + linear(h, rows(w.weight_hh, hidden, 0, 2), rows(w.bias_hh, hidden, 0, 2)));
  const Var r = blocks(rz, hidden, 0, 1), z = blocks(rz, hidden, 1, 2);
  const Var n = tanh(blocks(gi, hidden, 2, 3) + linear(r * h, rows(w.weight_hh, hidden, 2, 3), rows(w.bias_hh, hidden, 2, 3)));
  return {(1.0 - z) * n + z * h};
}

// 1 for the rows that are running at position t, else 0, as (B, 1). Undefined where all are.
Tensor running(const Tensor& lengths, i64 t, DType dtype, Device device) {
  if (!lengths.defined()) return {};
  const std::vector<i64> length = lengths.to_vector<i64>();
  std::vector<double> flags;
  bool all = true;
  for (const i64 n : length) {
    flags.push_back(t < n);
    all &= t < n;
  }
  return all ? Tensor() : Tensor::from(flags, {static_cast<i64>(flags.size()), 1}).to(dtype).to(device);
}

// A cell without a fused operation: finished rows keep their state and put out 0.
RecurrentOutput stepwise(Cell cell, const Var& x, const RecurrentState& initial, const RecurrentWeights& w,
                         const Tensor& lengths, bool reverse) {
  Tape& tape = x.tape();
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  if (lengths.defined() && !(lengths.shape() == Dims{batch}))
    throw_error("[{}] lengths {} should be ({})", module_name(cell), lengths.shape(), batch);
  Var h = initial.h.defined() ? initial.h : tape.constant(zeros({batch, hidden}, x.dtype(), x.value().device()));
  if (steps == 0) return {tape.constant(zeros({batch, 0, hidden}, x.dtype(), x.value().device())), h};
  const Var gates = linear(x, w.weight_ih, input_bias(cell, w));
  std::vector<Var> outputs(static_cast<std::size_t>(steps));
  for (i64 i = 0; i < steps; ++i) {
    const i64 t = reverse ? steps - 1 - i : i;
    const Var next = step(cell, select(gates, 1, t), {h}, w).h;
    Var& output = outputs[static_cast<std::size_t>(t)];
    if (const Tensor flags = running(lengths, t, x.dtype(), x.value().device()); flags.defined()) {
      const Var on = tape.constant(flags);
      output = next * on;
      h = output + h * (1.0 - on);
    } else {
      output = h = next;
    }
  }
  return {stack(outputs, 1), h};
}

}  // namespace

const char* module_name(Cell cell) {
  switch (cell) {
    case Cell::gru:
    case Cell::gru_reset_before:
      return "gru";
    case Cell::lstm:
      return "lstm";
    case Cell::rnn:
      return "rnn";
  }
  return "?";
}

i64 gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::rnn ? 1 : 3; }

std::vector<Tensor> RecurrentState::values() const {
  std::vector<Tensor> all{h.value()};
  if (c.defined()) all.push_back(c.value());
  return all;
}

RecurrentState RecurrentState::constants(Tape& tape, const std::vector<Tensor>& values) {
  return {tape.constant(values.at(0)), values.size() > 1 ? tape.constant(values[1]) : Var()};
}

// ---- one step -------------------------------------------------------------------------------------------------------

RecurrentState composed_step(Cell cell, const Var& x, const RecurrentState& state, const RecurrentWeights& w) {
  const Var& h = state.h;
  const i64 hidden = h.size(1);
  const Var gi = linear(x, w.weight_ih, w.bias_ih);  // (B, G)
  if (cell == Cell::gru_reset_before) return gru_reset_before_step(gi, h, w);
  const Var gh = linear(h, w.weight_hh, w.bias_hh);  // (B, G)
  const auto gate = [&](const Var& g, i64 k) { return blocks(g, hidden, k, k + 1); };
  if (cell == Cell::gru) {
    const Var r = sigmoid(gate(gi, 0) + gate(gh, 0));
    const Var z = sigmoid(gate(gi, 1) + gate(gh, 1));
    const Var n = tanh(gate(gi, 2) + r * gate(gh, 2));
    return {(1.0 - z) * n + z * h};
  }
  if (cell == Cell::lstm) {
    const Var i = sigmoid(gate(gi, 0) + gate(gh, 0));
    const Var f = sigmoid(gate(gi, 1) + gate(gh, 1));
    const Var g = tanh(gate(gi, 2) + gate(gh, 2));
    const Var o = sigmoid(gate(gi, 3) + gate(gh, 3));
    const Var c = f * state.c + i * g;
    return {o * tanh(c), c};
  }
  return {tanh(gi + gh)};
}

Var input_bias(Cell cell, const RecurrentWeights& w) {
  // A GRU's candidate needs W_hn h + b_hn by itself; elsewhere both biases are added to the same sum, once for all steps.
  return cell == Cell::lstm || cell == Cell::rnn ? w.bias_ih + w.bias_hh : w.bias_ih;
}

RecurrentState step(Cell cell, const Var& gates, const RecurrentState& state, const RecurrentWeights& w) {
  switch (cell) {
    case Cell::gru:
      return {gru_gates(gates, linear(state.h, w.weight_hh, w.bias_hh), state.h)};
    case Cell::gru_reset_before:
      return gru_reset_before_step(gates, state.h, w);
    case Cell::lstm: {
      const auto [h, c] = lstm_gates(linear(state.h, w.weight_hh, gates), state.c);
      return {h, c};
    }
    case Cell::rnn:
      return {tanh(linear(state.h, w.weight_hh, gates))};
  }
  return {};
}

// ---- sequences and layers -------------------------------------------------------------------------------------------

RecurrentOutput sequence(Cell cell, const Var& x, const RecurrentState& initial, const RecurrentWeights& w,
                         const Tensor& lengths, bool reverse) {
  switch (cell) {
    case Cell::gru:
      return gru(x, initial.h, w, lengths, reverse);
    case Cell::lstm:
      return lstm(x, initial.h, initial.c, w, lengths, reverse);
    case Cell::rnn:
      return rnn(x, initial.h, w, lengths, reverse);
    case Cell::gru_reset_before:
      break;
  }
  return stepwise(cell, x, initial, w, lengths, reverse);
}

Recurrent::Recurrent(Module& parent, const std::string& name, Cell cell, i64 input, i64 hidden, i64 layers, bool bidirectional,
                     double dropout)
    : Module(parent, name), cell_(cell), layers_(layers), directions_(bidirectional ? 2 : 1), dropout_(dropout) {
  const Initializer initial = uniform_within(1 / std::sqrt(static_cast<double>(hidden)));
  const i64 rows = gate_count(cell) * hidden;
  for (i64 layer = 0; layer < layers; ++layer)
    for (i64 direction = 0; direction < directions_; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      const i64 width = layer == 0 ? input : hidden * directions_;
      Parameter& weight_ih = add_parameter("weight_ih" + suffix, {rows, width}, initial);
      Parameter& weight_hh = add_parameter("weight_hh" + suffix, {rows, hidden}, initial);
      Parameter& bias_ih = add_parameter("bias_ih" + suffix, {rows}, initial);
      Parameter& bias_hh = add_parameter("bias_hh" + suffix, {rows}, initial);
      all_.push_back({weight_ih, weight_hh, bias_ih, bias_hh});
    }
}

RecurrentWeights Recurrent::weights(Tape& tape, i64 layer, bool reverse) const {
  const Direction& one = all_[static_cast<std::size_t>(layer * directions_ + reverse)];
  return {tape.parameter(one.weight_ih), tape.parameter(one.weight_hh), tape.parameter(one.bias_ih),
          tape.parameter(one.bias_hh)};
}

Recurrent::Output Recurrent::operator()(const Var& input, const Tensor& lengths, Mode& mode) const {
  Output result;
  Var x = input;
  for (i64 layer = 0; layer < layers_; ++layer) {
    std::vector<Var> outputs;
    for (i64 direction = 0; direction < directions_; ++direction) {
      const RecurrentOutput out = sequence(cell_, x, {}, weights(x.tape(), layer, direction == 1), lengths, direction == 1);
      outputs.push_back(out.output);
      result.h_n.push_back(out.h_n);
      if (out.c_n.defined()) result.c_n.push_back(out.c_n);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < layers_) x = dropout_(x, mode);
  }
  result.output = x;
  return result;
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_recurrent) {
  // The fused operations have theirs beside them.
  const auto run = [](Tensor lengths, bool reverse) {
    return [=](const std::vector<Var>& v) -> std::vector<Var> {
      const RecurrentOutput out =
          nn::sequence(nn::Cell::gru_reset_before, v[0], {v[5]}, {v[1], v[2], v[3], v[4]}, lengths, reverse);
      return {out.output, out.h_n};
    };
  };
  const std::vector<std::string> names{"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0"};
  const auto inputs = [&](i64 batch, i64 steps) {
    return std::vector<Tensor>{
        cases.normal({batch, steps, 2}), cases.normal({9, 2}), cases.normal({9, 3}), cases.normal({9}), cases.normal({9}),
        cases.normal({batch, 3})};
  };
  const Tensor lengths = Tensor::from<i64>({2, 3, 0}, {3});
  cases.add("gru_reset_before", run({}, false), inputs(2, 3), names);
  cases.add("gru_reset_before/lengths reverse", run(lengths, true), inputs(3, 3), names);
  cases.add("gru_reset_before/one step", run({}, true), inputs(1, 1), names);

  struct Owned : nn::Module {
    explicit Owned(nn::Cell cell)
        : layer(*this, nn::module_name(cell), cell, 2, 3, 2, true, 0.3), block(*this, DType::f64, generator) {}
    nn::Recurrent layer;
    Generator generator{5};
    nn::ParameterBlock block;
  };
  for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::gru_reset_before, nn::Cell::lstm, nn::Cell::rnn}) {
    const auto owned = std::make_shared<Owned>(cell);
    const std::string name = cell == nn::Cell::gru_reset_before ? "gru reset before" : nn::module_name(cell);
    const auto layers = [=](Var x) {
      nn::Mode mode = nn::Mode::training_step(3, 1);
      const nn::Recurrent::Output out = owned->layer(x, Tensor::from<i64>({2, 3}, {2}), mode);
      std::vector<Var> all{out.output};
      all.insert(all.end(), out.h_n.begin(), out.h_n.end());
      all.insert(all.end(), out.c_n.begin(), out.c_n.end());
      return all;
    };
    cases.add(fmt::format("Recurrent/{}, two layers, both directions, dropout", name), layers, {cases.normal({2, 3, 2})}, {"x"})
        .parameters_of(owned);
    // A decoder's step, twice with the same weights.
    const auto steps = [=](const std::vector<Var>& v) {
      const RecurrentWeights w = owned->layer.weights(v[0].tape());
      nn::RecurrentState state{v[1], cell == nn::Cell::lstm ? v[2] : Var()};
      for (int t = 0; t < 2; ++t) state = step(cell, linear(v[0], w.weight_ih, input_bias(cell, w)), state, w);
      return state.c.defined() ? std::vector{state.h, state.c} : std::vector{state.h};
    };
    std::vector<Tensor> starts{cases.normal({1, 2}), cases.normal({1, 3})};
    if (cell == nn::Cell::lstm) starts.push_back(cases.normal({1, 3}));
    cases.add(fmt::format("step/{}", name), steps, starts, {"x", "h", "c"}).parameters_of(owned);
  }
}

}  // namespace seqgrad
