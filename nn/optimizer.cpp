#include "nn/optimizer.h"

#include <cmath>

#include "tensor/launch.h"

namespace seqgrad::nn {

SGD::SGD(ParameterBlock& block, double momentum) : block_(block), momentum_(momentum) {
  if (momentum != 0) velocity_ = zeros_like(block.values());
}

void SGD::step(double learning_rate, const Tensor& gradient_scale) {
  const Tensor& w = block_.values();
  launch(kernels::sgd_step, w, block_.gradients(), velocity_, w.numel(), learning_rate, momentum_, gradient_scale);
}

Adam::Adam(ParameterBlock& block, double beta1, double beta2, double eps, double weight_decay)
    : block_(block),
      beta1_(beta1),
      beta2_(beta2),
      eps_(eps),
      weight_decay_(weight_decay),
      m_(zeros_like(block.values())),
      v_(zeros_like(block.values())) {}

void Adam::step(double learning_rate, const Tensor& gradient_scale) {
  ++steps_;
  const double t = static_cast<double>(steps_);
  const Tensor& w = block_.values();
  if (weight_decay_ != 0) launch(kernels::affine, w, w, 1 - learning_rate * weight_decay_, 0.0, w.numel());
  launch(kernels::adam_step, w, block_.gradients(), m_, v_, w.numel(), learning_rate, beta1_, beta2_, eps_,
         1 - std::pow(beta1_, t), 1 - std::pow(beta2_, t), gradient_scale);
}

}  // namespace seqgrad::nn
