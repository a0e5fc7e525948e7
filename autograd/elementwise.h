// What the elementwise operations share: one file of a few lines is left for each.
#pragma once

#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

template <class Functor>
Var unary(const char* name, const Var& input) {
  const Tensor x = input.value().contiguous();
  const Tensor y = empty_like(x);
  launch(kernels::unary<Functor>, x, y, x.numel());
  return record(name, {input}, y, [input, x = Saved(x), y = Saved(y)](const Tensor& dy) {
    Tensor dx = empty_like(dy);
    launch(kernels::unary_backward<Functor>, x.get(), y.get(), dy.contiguous(), dx, dx.numel());
    input.accumulate(std::move(dx));
  });
}

template <class Functor>
Var binary(const char* name, const Var& a, const Var& b) {
  if (a.dtype() != b.dtype())
    throw_error("[{}] {} and {}: both sides need one dtype", name, name_of(a.dtype()), name_of(b.dtype()));
  const Dims shape = broadcast(name, a.shape(), b.shape());
  const Tensor x = a.value().expand(shape), z = b.value().expand(shape);
  const Tensor y(shape, a.dtype(), x.device());
  launch(kernels::binary<Functor>, x, x.strides(), z, z.strides(), y, shape, shape.size());
  return record(name, {a, b}, y, [a, b, x = Saved(x), z = Saved(z), y = Saved(y)](const Tensor& dy) {
    Tensor da = a.requires_grad() ? empty_like(dy) : Tensor();
    Tensor db = b.requires_grad() ? empty_like(dy) : Tensor();
    const Dims& extents = dy.shape();
    launch(kernels::binary_backward<Functor>, x.get(), x.get().strides(), z.get(), z.get().strides(), y.get(), dy.contiguous(),
           da, db, extents, extents.size());
    if (da.defined()) a.accumulate(sum_to(std::move(da), a.shape()));
    if (db.defined()) b.accumulate(sum_to(std::move(db), b.shape()));
  });
}

}  // namespace seqgrad
