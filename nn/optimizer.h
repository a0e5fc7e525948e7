// Optimisers over a ParameterBlock: one pass over one block of memory. See module.h for threads.
#pragma once

#include "nn/module.h"

namespace seqgrad::nn {

// What clip_grad_norm_ multiplies gradients of this norm by: max_norm / (norm + 1e-6), at most 1; max_norm <= 0: always 1.
double clip_coefficient(double norm, double max_norm);

// v = momentum v + g;  w -= lr v
class SGD {
 public:
  explicit SGD(ParameterBlock& block, double momentum = 0);
  void step(double learning_rate, double gradient_scale = 1);

 private:
  ParameterBlock& block_;
  double momentum_;
  Tensor velocity_;
};

// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, with PyTorch's placing of epsilon. A weight decay is
// AdamW's (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019): w -= lr weight_decay w before the step.
class Adam {
 public:
  explicit Adam(ParameterBlock& block, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8, double weight_decay = 0);
  void step(double learning_rate, double gradient_scale = 1);

  // For checkpoints: the moments as blocks in the parameters' order, and the number of steps taken.
  const Tensor& first_moments() const { return m_; }
  const Tensor& second_moments() const { return v_; }
  i64 steps() const { return steps_; }
  void set_steps(i64 steps) { steps_ = steps; }

 private:
  ParameterBlock& block_;
  double beta1_, beta2_, eps_, weight_decay_;
  Tensor m_, v_;
  i64 steps_ = 0;
};

}  // namespace seqgrad::nn
