// Means of weights: over the steps of one training, or over several sets. See module.h for threads.
#pragma once

#include <vector>

#include "nn/module.h"

namespace seqgrad::nn {

// Exponential moving average: average = d average + (1 - d) weights after each step, with
// d = min(decay, (1 + t) / (10 + t)) at step t, so that the random first weights are soon forgotten.
class MovingAverage {
 public:
  MovingAverage(ParameterBlock& block, double decay);  // starts at the weights as they are

  void update(i64 step);
  void exchange();  // the weights and the average change places: once before measuring, once after
  const Tensor& values() const { return values_; }  // laid out like the block, for checkpoints

 private:
  ParameterBlock& block_;
  double decay_;
  Tensor values_;
};

// sum += weight * values, of the same layout.
void add_weights(const Tensor& sum, const Tensor& values, double weight);

}  // namespace seqgrad::nn
