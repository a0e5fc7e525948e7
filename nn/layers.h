// Linear, Embedding and Dropout, with PyTorch's parameter names and initial values. See module.h for threads.
#pragma once

#include "nn/module.h"

namespace seqgrad::nn {

// Whether dropout acts, and which masks it draws. Each call of a Dropout takes the next stream, so that a forward pass is a
// pure function of (weights, batch, seed, step).
struct Mode {
  bool training = false;
  u64 seed = 0;
  u64 next_stream = 0;

  static Mode evaluation() { return {}; }
  static Mode training_step(u64 seed, u64 step) { return {true, seed, step << 16}; }
};

// y = x weight^T + bias; weight (out, in), bias (out); both uniform within 1 / sqrt(in)
class Linear : public Module {
 public:
  // shared: another module's parameter (out, in) that is the weight of this one too, and stays that module's
  Linear(Module& parent, const std::string& name, i64 in, i64 out, Parameter* shared = nullptr);
  Var operator()(const Var& x) const;

  Parameter& weight;
  Parameter& bias;
};

// weight (V, E), normal with the given deviation; row padding_idx starts at zero and gets no gradient from here
class Embedding : public Module {
 public:
  Embedding(Module& parent, const std::string& name, i64 rows, i64 dim, i64 padding_idx = -1, double deviation = 1,
            Parameter* shared = nullptr);  // shared (V, E): as for Linear
  Var operator()(Tape& tape, const Tensor& ids) const;

  Parameter& weight;

 private:
  i64 padding_idx_;
};

class Dropout {
 public:
  explicit Dropout(double p) : p_(p) {}
  Var operator()(const Var& x, Mode& mode) const;

 private:
  double p_;
};

}  // namespace seqgrad::nn
