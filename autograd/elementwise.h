// What the elementwise operations share: one file of a few lines is left for each.
#pragma once

#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

// A number that only knows of which operands it was made. A functor's derivative, run on these, tells what it reads: the
// backward keeps nothing else, and nobody else's overwriting is an error. It all happens while compiling.
struct Traced {
  unsigned operands = 0;

  constexpr Traced() = default;
  constexpr explicit Traced(double) {}
  static constexpr Traced operand(unsigned bit) {
    Traced x;
    x.operands = bit;
    return x;
  }

  friend Traced of(Traced a, Traced b) { return operand(a.operands | b.operands); }
  friend Traced operator+(Traced a, Traced b) { return of(a, b); }
  friend Traced operator-(Traced a, Traced b) { return of(a, b); }
  friend Traced operator*(Traced a, Traced b) { return of(a, b); }
  friend Traced operator/(Traced a, Traced b) { return of(a, b); }
  friend Traced operator<(Traced a, Traced b) { return of(a, b); }
  friend Traced operator<=(Traced a, Traced b) { return of(a, b); }
  friend Traced operator>(Traced a, Traced b) { return of(a, b); }
  friend Traced operator>=(Traced a, Traced b) { return of(a, b); }
  friend Traced operator==(Traced a, Traced b) { return of(a, b); }
  friend Traced select(Traced condition, Traced a, Traced b) { return of(condition, of(a, b)); }
  friend Traced exp(Traced a) { return a; }
  friend Traced log(Traced a) { return a; }
  friend Traced tanh(Traced a) { return a; }
  friend Traced sigmoid(Traced a) { return a; }
  friend Traced sqrt(Traced a) { return a; }
};

template <class Functor>
Var unary(const char* name, const Var& input) {
  const Tensor x = input.value().contiguous();
  Tensor y = empty_like(x);
  launch(kernels::unary<Functor>, x, y, x.numel());
  return record(name, {input}, std::move(y), [input = SavedVar(input)](const Tensor& dy, const SavedVar& y) {
    const unsigned read = Functor::backward(Traced::operand(1), Traced::operand(2), Traced()).operands;
    Tensor dx = empty_like(dy);
    launch(kernels::unary_backward<Functor>, read & 1 ? input.value().contiguous() : dy, read & 2 ? y.value() : dy, dy, dx,
           dx.numel());
    input.accumulate(std::move(dx));
  });
}

template <class Functor>
Var binary(const char* name, const Var& a, const Var& b) {
  const Tensor &x = a.value(), &z = b.value();
  if (x.dtype() != z.dtype())
    throw_error("[{}] {} and {}: both sides need one dtype", name, name_of(x.dtype()), name_of(z.dtype()));
  const Dims shape = broadcast(name, x.shape(), z.shape());
  Tensor y(shape, x.dtype(), x.device());
  launch(kernels::binary<Functor>, x, broadcast_strides(x, shape), z, broadcast_strides(z, shape), y, shape, shape.size());
  return record(name, {a, b}, std::move(y), [a = SavedVar(a), b = SavedVar(b)](const Tensor& dy, const SavedVar& y) {
    Traced da_of, db_of;
    Functor::backward(Traced::operand(1), Traced::operand(2), Traced::operand(4), Traced(), da_of, db_of);
    const unsigned read = da_of.operands | db_of.operands;
    const Tensor &x = read & 1 ? a.value() : dy, &z = read & 2 ? b.value() : dy;
    const Dims& shape = dy.shape();
    Tensor da = a.requires_grad() ? empty_like(dy) : Tensor();
    Tensor db = b.requires_grad() ? empty_like(dy) : Tensor();
    launch(kernels::binary_backward<Functor>, x, broadcast_strides(x, shape), z, broadcast_strides(z, shape),
           read & 4 ? y.value() : dy, dy, da, db, shape, shape.size());
    if (da.defined()) a.accumulate_sum(std::move(da));
    if (db.defined()) b.accumulate_sum(std::move(db));
  });
}

}  // namespace seqgrad
