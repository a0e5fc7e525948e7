// The gated recurrent unit as PyTorch has it (the reset gate acts after the matrix product):
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn))       h' = (1 - z) n + z h
//
// One step's gradient, d being the gradient to h' (kernels/ops.def gru_gates_backward):
//   dn = d (1 - z)(1 - n^2)   dz = d (h - n) z (1 - z)   dr = dn (W_hn h + b_hn) r (1 - r)
//   dgi = (dr, dz, dn)        dgh = (dr, dz, dn r)       dh = d z + dgh W_hh
// Over a sequence, d at a step is the gradient to that step's output plus dh of the step after it. The sums over time of
//   dW_ih += dgi^T x,  dW_hh += dgh^T h,  dx = dgi W_ih
// need no order, so each is one product over all steps.
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {
namespace {

i64 ld(const Tensor& rows) { return rows.strides()[0]; }

// Rows 0..active(t) hold every row that is still running at step t, so that sorted batches do no products on padding.
class ActiveRows {
 public:
  ActiveRows(const Tensor& lengths, i64 batch, i64 steps) : counts_(static_cast<std::size_t>(steps), batch) {
    if (!lengths.defined()) return;
    const i64* length = lengths.data<i64>();
    counts_.assign(counts_.size(), 0);
    for (i64 b = 0; b < batch; ++b)
      for (i64 t = 0; t < length[b]; ++t) counts_[static_cast<std::size_t>(t)] = b + 1;
  }
  i64 operator()(i64 t) const { return counts_[static_cast<std::size_t>(t)]; }

 private:
  std::vector<i64> counts_;
};

void check(const Var& x, const Var& h0, const RecurrentWeights& w, const Tensor& lengths) {
  if (x.dim() != 3 || w.weight_hh.dim() != 2) throw_error("[gru] needs input (B, S, I), not {}", x.shape());
  const i64 batch = x.size(0), steps = x.size(1), hidden = w.weight_hh.size(1);
  if (!(w.weight_ih.shape() == Dims{3 * hidden, x.size(2)}) || !(w.weight_hh.shape() == Dims{3 * hidden, hidden}) ||
      !(w.bias_ih.shape() == Dims{3 * hidden}) || !(w.bias_hh.shape() == Dims{3 * hidden}))
    throw_error("[gru] input {} does not fit weight_ih {}, weight_hh {}", x.shape(), w.weight_ih.shape(), w.weight_hh.shape());
  if (h0.defined() && !(h0.shape() == Dims{batch, hidden}))
    throw_error("[gru] h0 {} should be ({}, {})", h0.shape(), batch, hidden);
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::i64 || !(lengths.shape() == Dims{batch}))
    throw_error("[gru] lengths should be i64 ({}), not {} {}", batch, name_of(lengths.dtype()), lengths.shape());
  for (i64 b = 0; b < batch; ++b)
    if (const i64 n = lengths.data<i64>()[b]; n < 0 || n > steps)
      throw_error("[gru] length {} of row {} is outside 0..{}", n, b, steps);
}

}  // namespace

Var gru_gates(const Var& gi, const Var& gh, const Var& h) {
  if (h.dim() != 2 || !(gi.shape() == Dims{h.size(0), 3 * h.size(1)}) || !(gh.shape() == gi.shape()))
    throw_error("[gru_gates] gi {}, gh {} and h {} do not fit", gi.shape(), gh.shape(), h.shape());
  const i64 rows = h.size(0), hidden = h.size(1);
  const auto unit_rows = [](const Tensor& t) { return t.strides()[1] == 1 ? t : t.clone(); };
  const Tensor i = unit_rows(gi.value()), g = unit_rows(gh.value()), s = unit_rows(h.value());
  const Tensor next({rows, hidden}, s.dtype(), s.device()), gates({rows, 4 * hidden}, s.dtype(), s.device()), none;
  launch(kernels::gru_gates, i, ld(i), g, ld(g), s, ld(s), next, hidden, none, i64{0}, gates, 4 * hidden, rows, hidden, none,
         i64{0});
  return record("gru_gates", {gi, gh, h}, next, [=, s = Saved(s)](const Tensor& dy) {
    const Tensor dh = dy.clone();
    const Tensor dgi({rows, 3 * hidden}, dy.dtype(), dy.device()), dgh = empty_like(dgi);
    launch(kernels::gru_gates_backward, none, i64{0}, gates, 4 * hidden, s.get(), ld(s), dh, hidden, dgi, 3 * hidden, dgh,
           3 * hidden, rows, hidden, none, i64{0});
    gi.accumulate(Tensor(dgi));
    gh.accumulate(Tensor(dgh));
    h.accumulate(Tensor(dh));
  });
}

RecurrentOutput gru(const Var& input, const Var& h0, const RecurrentWeights& w, const Tensor& lengths_in, bool reverse) {
  const Tensor lengths = lengths_in.defined() ? lengths_in.contiguous() : lengths_in;
  check(input, h0, w, lengths);
  const i64 batch = input.size(0), steps = input.size(1), width = input.size(2), hidden = w.weight_hh.size(1);
  const i64 all = batch * steps;
  const Tensor x = input.value().contiguous();
  const auto make = [&](const Dims& shape) { return Tensor(shape, x.dtype(), x.device()); };
  const auto step = [=](i64 i) { return reverse ? steps - 1 - i : i; };
  const ActiveRows active(lengths, batch, steps);

  const Tensor gi = make({batch, steps, 3 * hidden});
  gi.copy_from(w.bias_ih.value().expand(gi.shape()));
  matmul_into(x.reshape({all, width}), w.weight_ih.value().transpose(0, 1), 1, gi.reshape({all, 3 * hidden}));

  // before[:, t] is the state that step t starts from.
  const Tensor before = make({batch, steps, hidden}), output = make({batch, steps, hidden}), h_n = make({batch, hidden});
  const Tensor gates = make({batch, steps, 4 * hidden}), gh = make({batch, 3 * hidden});
  const auto state = [&](i64 i) { return i < steps ? before.select(1, step(i)) : h_n; };
  if (h0.defined())
    state(0).copy_from(h0.value());
  else
    state(0).fill(0);
  for (i64 i = 0; i < steps; ++i) {
    const i64 t = step(i), rows = active(t);
    const Tensor h = state(i), next = state(i + 1), gi_t = gi.select(1, t), y = output.select(1, t),
                 gates_t = gates.select(1, t);
    const Tensor gh_t = gh.slice(0, 0, rows);
    gh_t.copy_from(w.bias_hh.value().expand(gh_t.shape()));
    matmul_into(h.slice(0, 0, rows), w.weight_hh.value().transpose(0, 1), 1, gh_t);
    launch(kernels::gru_gates, gi_t, ld(gi_t), gh, 3 * hidden, h, ld(h), next, ld(next), y, ld(y), gates_t, ld(gates_t), batch,
           hidden, lengths, t);
  }

  const std::vector<Var> inputs{input, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0};
  const std::vector<Tensor> outputs{output, h_n};
  const Var first =
      record_many("gru", inputs, outputs,
                  [=, x = Saved(x), w_ih = Saved(w.weight_ih.value()), w_hh = Saved(w.weight_hh.value()),
                   before = Saved(before)](const Tensor* gradients) {
                    const Tensor& doutput = gradients[0];
                    const Tensor& dh_n = gradients[1];
                    const Tensor dh = dh_n.defined() ? dh_n.clone() : zeros({batch, hidden}, x.get().dtype(), x.get().device());
                    const Tensor dgi({batch, steps, 3 * hidden}, dh.dtype(), dh.device()), dgh = empty_like(dgi);
                    for (i64 i = steps - 1; i >= 0; --i) {
                      const i64 t = step(i), rows = active(t);
                      const Tensor dy = doutput.defined() ? doutput.select(1, t) : Tensor();
                      const Tensor h = before.get().select(1, t), gates_t = gates.select(1, t), dgi_t = dgi.select(1, t),
                                   dgh_t = dgh.select(1, t);
                      launch(kernels::gru_gates_backward, dy, dy.defined() ? ld(dy) : i64{0}, gates_t, ld(gates_t), h, ld(h),
                             dh, hidden, dgi_t, ld(dgi_t), dgh_t, ld(dgh_t), batch, hidden, lengths, t);
                      matmul_into(dgh_t.slice(0, 0, rows), w_hh, 1, dh.slice(0, 0, rows));
                    }
                    const Tensor gi_rows = dgi.reshape({all, 3 * hidden}), gh_rows = dgh.reshape({all, 3 * hidden});
                    input.accumulate(matmul(gi_rows, w_ih).reshape(input.shape()));
                    w.weight_ih.accumulate_outer(gi_rows, x.get().reshape({all, width}));
                    w.weight_hh.accumulate_outer(gh_rows, before.get().reshape({all, hidden}));
                    w.bias_ih.accumulate(sum_to(gi_rows, {3 * hidden}));
                    w.bias_hh.accumulate(sum_to(gh_rows, {3 * hidden}));
                    if (h0.defined()) h0.accumulate(dh);
                  });
  return {first, first.tape().output(first, 1)};
}

SEQGRAD_CASES(gru) {
  const auto run = [](Tensor lengths, bool reverse) {
    return [=](const std::vector<Var>& v) -> std::vector<Var> {
      const RecurrentOutput out = gru(v[0], v.size() > 5 ? v[5] : Var(), {v[1], v[2], v[3], v[4]}, lengths, reverse);
      return {out.output, out.h_n};
    };
  };
  const std::vector<std::string> names{"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0"};
  const auto inputs = [&](i64 batch, i64 steps) {
    return std::vector<Tensor>{
        cases.normal({batch, steps, 2}), cases.normal({9, 2}), cases.normal({9, 3}), cases.normal({9}), cases.normal({9}),
        cases.normal({batch, 3})};
  };
  const Tensor lengths = Tensor::from<i64>({2, 4, 1}, {3});
  cases.add("gru_gates", gru_gates, {cases.normal({2, 9}), cases.normal({2, 9}), cases.normal({2, 3})}, {"gi", "gh", "h"});
  cases.add("gru", run({}, false), inputs(2, 3), names);
  cases.add("gru/lengths", run(lengths, false), inputs(3, 4), names);
  cases.add("gru/lengths reverse", run(lengths, true), inputs(3, 4), names);
  cases.add("gru/one step", run({}, true), inputs(1, 1), names);
}

}  // namespace seqgrad
