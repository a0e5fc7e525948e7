#include "tensor/random.h"

#include <cmath>
#include <numbers>

#include "kernels/elementwise.h"
#include "kernels/philox.h"
#include "tensor/launch.h"

namespace seqgrad {

u32 Generator::word() {
  if (next_ == 4) {
    const kernels::Philox block = kernels::philox(seed_, stream_, block_++);
    for (int i = 0; i < 4; ++i) words_[i] = block.word[i];
    next_ = 0;
  }
  return words_[next_++];
}

double Generator::uniform() {
  const u64 high = word() >> 5, low = word() >> 6;
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

double Generator::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(u64 seed) { default_generator() = Generator(seed); }

namespace {

template <class Draw>
Tensor filled(const Dims& shape, DType dtype, Draw draw) {
  Tensor x(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    T* p = x.mutable_data<T>();
    for (i64 i = 0; i < x.numel(); ++i) p[i] = static_cast<T>(draw());
  });
  return x;
}

}  // namespace

Tensor randn(const Dims& shape, DType dtype, Generator& generator) {
  return filled(shape, dtype, [&] { return generator.normal(); });
}

Tensor rand(const Dims& shape, double low, double high, DType dtype, Generator& generator) {
  return filled(shape, dtype, [&] { return low + (high - low) * generator.uniform(); });
}

}  // namespace seqgrad
