#include "nn/gru.h"

#include <cmath>

#include "autograd/cases.h"

namespace seqgrad::nn {

RecurrentWeights GRUDirection::on(Tape& tape) const {
  return {tape.parameter(weight_ih_), tape.parameter(weight_hh_), tape.parameter(bias_ih_), tape.parameter(bias_hh_)};
}

GRU::GRU(Module& parent, const std::string& name, i64 input, i64 hidden, i64 layers, bool bidirectional, double dropout)
    : Module(parent, name), layers_(layers), directions_(bidirectional ? 2 : 1), dropout_(dropout) {
  const Initializer initial = uniform_within(1 / std::sqrt(static_cast<double>(hidden)));
  for (i64 layer = 0; layer < layers; ++layer)
    for (i64 direction = 0; direction < directions_; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      const i64 width = layer == 0 ? input : hidden * directions_;
      Parameter& weight_ih = add_parameter("weight_ih" + suffix, {3 * hidden, width}, initial);
      Parameter& weight_hh = add_parameter("weight_hh" + suffix, {3 * hidden, hidden}, initial);
      Parameter& bias_ih = add_parameter("bias_ih" + suffix, {3 * hidden}, initial);
      Parameter& bias_hh = add_parameter("bias_hh" + suffix, {3 * hidden}, initial);
      cells_.emplace_back(weight_ih, weight_hh, bias_ih, bias_hh);
    }
}

RecurrentWeights GRU::weights(Tape& tape, i64 layer, bool reverse) const {
  return cells_[static_cast<std::size_t>(layer * directions_ + reverse)].on(tape);
}

GRU::Output GRU::operator()(const Var& input, const Tensor& lengths, Mode& mode) const {
  Output result;
  Var x = input;
  for (i64 layer = 0; layer < layers_; ++layer) {
    std::vector<Var> outputs;
    for (i64 direction = 0; direction < directions_; ++direction) {
      const RecurrentOutput out = gru(x, {}, weights(x.tape(), layer, direction == 1), lengths, direction == 1);
      outputs.push_back(out.output);
      result.h_n.push_back(out.h_n);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < layers_) x = dropout_(x, mode);
  }
  result.output = x;
  return result;
}

Var gru_cell_composed(const Var& x, const Var& h, const RecurrentWeights& w) {
  const i64 hidden = h.size(1);
  const Var gi = linear(x, w.weight_ih, w.bias_ih);  // (B, 3H)
  const Var gh = linear(h, w.weight_hh, w.bias_hh);  // (B, 3H)
  const auto gate = [&](const Var& g, i64 i) { return slice(g, 1, i * hidden, (i + 1) * hidden); };
  const Var r = sigmoid(gate(gi, 0) + gate(gh, 0));
  const Var z = sigmoid(gate(gi, 1) + gate(gh, 1));
  const Var n = tanh(gate(gi, 2) + r * gate(gh, 2));
  return (1.0 - z) * n + z * h;
}

Var gru_cell(const Var& gi, const Var& h, const RecurrentWeights& w) {
  return gru_gates(gi, linear(h, w.weight_hh, w.bias_hh), h);
}

}  // namespace seqgrad::nn
