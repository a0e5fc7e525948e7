// Optimisers over a ParameterBlock: one pass over one block of memory. See module.h for threads.
// step() multiplies gradients by gradient_scale first: one f64 number on the block's device, as ParameterBlock::clip() gives
// it; 1 without. Where it is NaN the step changes no parameter.
#pragma once

#include "nn/module.h"

namespace seqgrad::nn {

// v = momentum v + g;  w -= lr v
class SGD {
 public:
  explicit SGD(ParameterBlock& block, double momentum = 0);
  void step(double learning_rate, const Tensor& gradient_scale = {});

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
  void step(double learning_rate, const Tensor& gradient_scale = {});

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
