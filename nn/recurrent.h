// GRU layers with PyTorch's parameters: weight_ih_l{k} (3H, I), weight_hh_l{k} (3H, H), bias_ih_l{k}, bias_hh_l{k} (3H), and
// the same with "_reverse"; all uniform within 1 / sqrt(H). See module.h for threads.
#pragma once

#include "nn/layers.h"

namespace seqgrad::nn {

// One layer in one direction.
class GRUDirection {
 public:
  GRUDirection(Parameter& weight_ih, Parameter& weight_hh, Parameter& bias_ih, Parameter& bias_hh)
      : weight_ih_(weight_ih), weight_hh_(weight_hh), bias_ih_(bias_ih), bias_hh_(bias_hh) {}
  RecurrentWeights on(Tape& tape) const;

 private:
  Parameter &weight_ih_, &weight_hh_, &bias_ih_, &bias_hh_;
};

class GRU : public Module {
 public:
  GRU(Module& parent, const std::string& name, i64 input, i64 hidden, i64 layers = 1, bool bidirectional = false,
      double dropout = 0);

  struct Output {
    Var output;            // (B, S, H x directions): the last layer's
    std::vector<Var> h_n;  // (B, H) for each layer and direction, layer by layer, forward before reverse
  };
  // x (B,S,I), lengths i64 (B) or undefined. Initial states are zero. Dropout acts between layers.
  Output operator()(const Var& x, const Tensor& lengths, Mode& mode) const;

  RecurrentWeights weights(Tape& tape, i64 layer = 0, bool reverse = false) const;

 private:
  i64 layers_, directions_;
  Dropout dropout_;
  std::vector<GRUDirection> cells_;
};

// One step as the equations of autograd/ops/gru.cpp read, composed of primitive operations: what the fused operations are
// tested against. x (B,I), h (B,H) -> (B,H).
Var gru_cell_composed(const Var& x, const Var& h, const RecurrentWeights& weights);

// One step with the gates fused. gi = W_ih x + b_ih is the caller's, who may compute it for many steps at once.
Var gru_cell(const Var& gi, const Var& h, const RecurrentWeights& weights);

}  // namespace seqgrad::nn
