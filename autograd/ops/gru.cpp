// The gated recurrent unit as PyTorch has it (the reset gate acts after the matrix product):
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn))       h' = (1 - z) n + z h
//
// One step's gradient, d being the gradient to h' (kernels/ops.def gru_gates_backward):
//   dn = d (1 - z)(1 - n^2)   dz = d (h - n) z (1 - z)   dr = dn (W_hn h + b_hn) r (1 - r)
//   dgi = (dr, dz, dn)        dgh = (dr, dz, dn r)       dh = d z + dgh W_hh
// Over a sequence, d at a step is the gradient to that step's output plus dh of the step after it; the weights' gradients are
// products over all steps (autograd/recurrent.h).
#include "autograd/cases.h"
#include "autograd/recurrent.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {

Var gru_gates(const Var& gi, const Var& gh, const Var& h) {
  if (h.dim() != 2 || !(gi.shape() == Dims{h.size(0), 3 * h.size(1)}) || !(gh.shape() == gi.shape()))
    throw_error("[gru_gates] gi {}, gh {} and h {} do not fit", gi.shape(), gh.shape(), h.shape());
  const i64 rows = h.size(0), hidden = h.size(1);
  const auto unit_rows = [](const Tensor& t) { return t.strides()[1] == 1 ? t : t.clone(); };
  const Tensor i = unit_rows(gi.value()), g = unit_rows(gh.value()), s = unit_rows(h.value());
  const Tensor next({rows, hidden}, s.dtype(), s.device()), gates({rows, 4 * hidden}, s.dtype(), s.device()), none;
  launch(kernels::gru_gates, i, row_stride(i), g, row_stride(g), s, row_stride(s), next, hidden, none, i64{0}, gates,
         4 * hidden, rows, hidden, none, i64{0});
  return record("gru_gates", {gi, gh, h}, next, [=, s = Saved(s)](const Tensor& dy) {
    Tensor dh = dy.clone();
    Tensor dgi({rows, 3 * hidden}, dy.dtype(), dy.device()), dgh = empty_like(dgi);
    launch(kernels::gru_gates_backward, none, i64{0}, gates, 4 * hidden, s.get(), row_stride(s), dh, hidden, dgi, 3 * hidden,
           dgh, 3 * hidden, rows, hidden, none, i64{0});
    gi.accumulate(std::move(dgi));
    gh.accumulate(std::move(dgh));
    h.accumulate(std::move(dh));
  });
}

RecurrentOutput gru(const Var& input, const Var& h0, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  const Recurrence r("gru", 3, input, w, lengths, reverse);
  r.check_state("h0", h0);
  const i64 batch = r.batch, hidden = r.hidden;
  const Tensor x = input.value().contiguous();
  const auto make = [&](const Dims& shape) { return Tensor(shape, x.dtype(), x.device()); };
  const Tensor gi = r.input_product(x, w.weight_ih.value(), w.bias_ih.value());
  const StateSequence h(r, h0, x);
  const Tensor output = empty_like(h.before), gates = make({batch, r.steps, 4 * hidden}), gh = make({batch, 3 * hidden});
  for (i64 i = 0; i < r.steps; ++i) {
    const i64 t = r.position(i), rows = r.active(t);
    const Tensor state = h.at(r, i), next = h.at(r, i + 1), gi_t = gi.select(1, t), y = output.select(1, t),
                 gates_t = gates.select(1, t);
    const Tensor gh_t = gh.slice(0, 0, rows);
    gh_t.copy_from(w.bias_hh.value().expand(gh_t.shape()));
    matmul_into(state.slice(0, 0, rows), w.weight_hh.value().transpose(0, 1), 1, gh_t);
    launch(kernels::gru_gates, gi_t, row_stride(gi_t), gh, 3 * hidden, state, row_stride(state), next, row_stride(next), y,
           row_stride(y), gates_t, row_stride(gates_t), batch, hidden, r.lengths, t);
  }

  const std::vector<Var> inputs{input, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0};
  const std::vector<Tensor> outputs{output, h.last};
  const Var first =
      record_many("gru", inputs, outputs,
                  [=, x = Saved(x), w_ih = Saved(w.weight_ih.value()), w_hh = Saved(w.weight_hh.value()),
                   before = Saved(h.before)](const Tensor* gradients) {
                    const Tensor& doutput = gradients[0];
                    const Tensor dh = r.start_backward(gradients[1], x);
                    const Tensor dgi({batch, r.steps, 3 * hidden}, dh.dtype(), dh.device()), dgh = empty_like(dgi);
                    for (i64 i = r.steps - 1; i >= 0; --i) {
                      const i64 t = r.position(i), rows = r.active(t);
                      const Tensor dy = doutput.defined() ? doutput.select(1, t) : Tensor();
                      const Tensor state = before.get().select(1, t), gates_t = gates.select(1, t), dgi_t = dgi.select(1, t),
                                   dgh_t = dgh.select(1, t);
                      launch(kernels::gru_gates_backward, dy, dy.defined() ? row_stride(dy) : i64{0}, gates_t,
                             row_stride(gates_t), state, row_stride(state), dh, hidden, dgi_t, row_stride(dgi_t), dgh_t,
                             row_stride(dgh_t), batch, hidden, r.lengths, t);
                      matmul_into(dgh_t.slice(0, 0, rows), w_hh, 1, dh.slice(0, 0, rows));
                    }
                    r.accumulate(input, w, x, w_ih, before, dgi, dgh);
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
