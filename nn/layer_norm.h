// Layer normalisation with PyTorch's parameter names and initial values. See module.h for threads.
#pragma once

#include "nn/module.h"

namespace seqgrad::nn {

// y = (x - mean) / sqrt(var + eps) weight + bias over the last dimension; weight (E), ones at first, and bias (E), zeros
class LayerNorm : public Module {
 public:
  LayerNorm(Module& parent, const std::string& name, i64 width, double eps = 1e-5);
  Var operator()(const Var& x) const;  // (..., E) -> (..., E)

  Parameter& weight;
  Parameter& bias;

 private:
  double eps_;
};

}  // namespace seqgrad::nn
