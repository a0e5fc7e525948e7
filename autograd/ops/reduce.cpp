// y = sum of x over one axis or all;  dx = dy repeated along the axis.  mean = sum / n.
// y = max of x over one axis;  dx = dy at the first position that attains it, 0 elsewhere.
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

Tensor sum_to(Tensor x, const Dims& shape) {
  if (x.shape() == shape) return x;
  const Tensor y = zeros(shape, x.dtype(), x.device());
  launch(kernels::add_strided, 1.0, x, x.strides(), y, y.expand(x.shape()).strides(), x.shape(), x.dim());
  return y;
}

Var sum(const Var& x) {
  return record("sum", {x}, sum_to(x.value(), {}), [x](const Tensor& dy) { x.accumulate(dy.expand(x.shape())); });
}

Var sum(const Var& x, int dimension, bool keepdim) {
  const int d = x.value().wrap(dimension);
  Dims kept = x.shape();
  kept[d] = 1;
  const Var y = record("sum", {x}, sum_to(x.value(), kept), [x](const Tensor& dy) { x.accumulate(dy.expand(x.shape())); });
  return keepdim ? y : select(y, d, 0);
}

Var mean(const Var& x) { return sum(x) / static_cast<double>(x.value().numel()); }
Var mean(const Var& x, int dimension, bool keepdim) {
  return sum(x, dimension, keepdim) / static_cast<double>(x.size(dimension));
}

Var max(const Var& input, int dimension) {
  const int d = input.value().wrap(dimension);
  const Tensor x = input.value().contiguous();
  const i64 n = x.size(d);
  if (n == 0) throw_error("[max] dimension {} of {} is empty", d, x.shape());
  Dims shape = x.shape();
  i64 outer = 1, inner = 1;
  for (int i = 0; i < d; ++i) outer *= shape[i];
  for (int i = d + 1; i < shape.size(); ++i) inner *= shape[i];
  shape.erase(d);
  const Tensor y(shape, x.dtype(), x.device()), index(shape, DType::i64, x.device());
  launch(kernels::max_reduce, x, y, index, outer, n, inner);
  return record("max", {input}, y, [=](const Tensor& dy) {
    Tensor dx = zeros(input.shape(), dy.dtype(), dy.device());
    launch(kernels::max_reduce_backward, dy, index, dx, outer, n, inner);
    input.accumulate(std::move(dx));
  });
}

SEQGRAD_CASES(reduce) {
  cases.add("sum", [](Var x) { return sum(x); }, {cases.normal({2, 3, 4})});
  cases.add("sum/dimension", [](Var x) { return sum(x, 1); }, {cases.normal({2, 3, 4})});
  cases.add("sum/expanded", [](Var x) { return sum(expand(x, {4, 3, 2}), -1, true); }, {cases.normal({3, 1})});
  cases.add("mean", [](Var x) { return mean(x); }, {cases.normal({2, 3})});
  cases.add("mean/dimension", [](Var x) { return mean(x, 0, true); }, {cases.normal({3, 4})});
  cases.add("max", [](Var x) { return max(x, 1); }, {cases.distinct({2, 5, 3}, 0.1)}).kinks(0.1);
}

}  // namespace seqgrad
