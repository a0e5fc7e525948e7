// Random tensors from counter-based streams (kernels/philox.h): the same seed gives the same numbers on every machine.
// A Generator belongs to one thread at a time; default_generator() is one per thread.
#pragma once

#include "tensor/tensor.h"

namespace seqgrad {

class Generator {
 public:
  explicit Generator(u64 seed = 0, u64 stream = 0) : seed_(seed), stream_(stream) {}

  u32 word();
  double uniform();  // in [0, 1), 53 bits
  double normal();   // mean 0, variance 1 (Box and Muller)
  u64 seed() const { return seed_; }

 private:
  u64 seed_, stream_;
  u64 block_ = 0;
  int next_ = 4;
  u32 words_[4] = {};
};

Generator& default_generator();
void manual_seed(u64 seed);  // restarts default_generator()

Tensor randn(const Dims& shape, DType dtype = DType::f32, Generator& generator = default_generator());
Tensor rand(const Dims& shape, double low, double high, DType dtype = DType::f32, Generator& generator = default_generator());

}  // namespace seqgrad
