#include "nn/averaging.h"

#include <algorithm>

#include "tensor/launch.h"

namespace seqgrad::nn {

MovingAverage::MovingAverage(ParameterBlock& block, double decay)
    : block_(block), decay_(decay), values_(block.values().clone()) {}

void MovingAverage::update(i64 step) {
  const double t = static_cast<double>(step), d = std::min(decay_, (1 + t) / (10 + t));
  launch(kernels::affine, values_, values_, d, 0.0, values_.numel());
  add_weights(values_, block_.values(), 1 - d);
}

void MovingAverage::exchange() {
  const Tensor weights = block_.values().clone();
  block_.values().copy_from(values_);
  values_.copy_from(weights);
}

void add_weights(const Tensor& sum, const Tensor& values, double weight) {
  launch(kernels::add_strided, weight, values, values.strides(), sum, sum.strides(), values.shape(), values.dim());
}

}  // namespace seqgrad::nn
