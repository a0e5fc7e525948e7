#include "autograd/recurrent.h"

#include "tensor/matmul.h"

namespace seqgrad {

Recurrence::Recurrence(const char* op, i64 gates, const Var& x, const RecurrentWeights& w, const Tensor& lengths_in,
                       bool reverse)
    : lengths(lengths_in.defined() ? lengths_in.contiguous() : lengths_in), op_(op), reverse_(reverse) {
  if (x.dim() != 3 || w.weight_hh.dim() != 2) throw_error("[{}] needs input (B, S, I), not {}", op, x.shape());
  batch = x.size(0);
  steps = x.size(1);
  width = x.size(2);
  hidden = w.weight_hh.size(1);
  const i64 rows = gates * hidden;
  if (!(w.weight_ih.shape() == Dims{rows, width}) || !(w.weight_hh.shape() == Dims{rows, hidden}) ||
      !(w.bias_ih.shape() == Dims{rows}) || !(w.bias_hh.shape() == Dims{rows}))
    throw_error("[{}] input {} does not fit weight_ih {}, weight_hh {}", op, x.shape(), w.weight_ih.shape(),
                w.weight_hh.shape());
  active_.assign(static_cast<std::size_t>(steps), lengths.defined() ? 0 : batch);
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::i64 || !(lengths.shape() == Dims{batch}))
    throw_error("[{}] lengths should be i64 ({}), not {} {}", op, batch, name_of(lengths.dtype()), lengths.shape());
  for (i64 b = 0; b < batch; ++b) {
    const i64 n = lengths.data<i64>()[b];
    if (n < 0 || n > steps) throw_error("[{}] length {} of row {} is outside 0..{}", op, n, b, steps);
    for (i64 t = 0; t < n; ++t) active_[static_cast<std::size_t>(t)] = b + 1;
  }
  lengths = lengths.to(x.value().device());  // for every step's kernel
}

void Recurrence::check_state(const char* name, const Var& state) const {
  if (state.defined() && !(state.shape() == Dims{batch, hidden}))
    throw_error("[{}] {} {} should be ({}, {})", op_, name, state.shape(), batch, hidden);
}

Tensor Recurrence::input_product(const Tensor& x, const Tensor& weight_ih, const Tensor& bias) const {
  const i64 rows = weight_ih.size(0);
  const Tensor product({batch, steps, rows}, x.dtype(), x.device());
  product.copy_from(bias.expand(product.shape()));
  matmul_into(x.reshape({batch * steps, width}), weight_ih.transpose(0, 1), 1, product.reshape({batch * steps, rows}));
  return product;
}

Tensor Recurrence::start_backward(const Tensor& dlast, const Tensor& like) const {
  return dlast.defined() ? dlast.clone() : zeros({batch, hidden}, like.dtype(), like.device());
}

void Recurrence::accumulate(const Var& input, const RecurrentWeights& w, const Tensor& x, const Tensor& weight_ih,
                            const Tensor& before, const Tensor& dgi, const Tensor& dgh) const {
  const i64 all = batch * steps, rows = weight_ih.size(0);
  const Tensor gi_rows = dgi.reshape({all, rows}), gh_rows = dgh.reshape({all, rows});
  input.accumulate(matmul(gi_rows, weight_ih).reshape(input.shape()));
  w.weight_ih.accumulate_outer(gi_rows, x.reshape({all, width}));
  w.weight_hh.accumulate_outer(gh_rows, before.reshape({all, hidden}));
  const Tensor dbias = sum_to(gi_rows, {rows});
  w.bias_ih.accumulate(dbias);
  w.bias_hh.accumulate(dgh.shares_memory_with(dgi) ? dbias : sum_to(gh_rows, {rows}));
}

StateSequence::StateSequence(const Recurrence& r, const Var& initial, const Tensor& like)
    : before({r.batch, r.steps, r.hidden}, like.dtype(), like.device()),
      last({r.batch, r.hidden}, like.dtype(), like.device()) {
  if (initial.defined())
    at(r, 0).copy_from(initial.value());
  else
    at(r, 0).fill(0);
}

}  // namespace seqgrad
