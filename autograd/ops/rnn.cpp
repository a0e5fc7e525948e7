// The plain recurrent network (Elman 1990) with tanh, as PyTorch has it:
//   h' = tanh(W_ih x + b_ih + W_hh h + b_hh)
//
// One step's gradient, d being the gradient to h' (kernels/ops.def rnn_gates_backward):
//   da = d (1 - h'^2)   dh = da W_hh
// Over a sequence, d at a step is the gradient to that step's output plus dh of the step after it; the weights' gradients are
// products over all steps (autograd/recurrent.h). A single step is tanh(linear(h, W_hh, ...)) and needs no operation of its
// own.
#include "autograd/cases.h"
#include "autograd/recurrent.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {

RecurrentOutput rnn(const Var& input, const Var& h0, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  const Recurrence r("rnn", 1, input, w, lengths, reverse);
  r.check_state("h0", h0);
  const i64 batch = r.batch, hidden = r.hidden;
  const Tensor x = input.value().contiguous();
  const Tensor bias = w.bias_ih.value().clone();
  launch(kernels::add_strided, 1.0, w.bias_hh.value(), w.bias_hh.value().strides(), bias, bias.strides(), bias.shape(), 1);
  const Tensor a = r.input_product(x, w.weight_ih.value(), bias);
  const StateSequence h(r, h0, x);
  const Tensor output = empty_like(h.before);
  for (i64 i = 0; i < r.steps; ++i) {
    const i64 t = r.position(i), rows = r.active(t);
    const Tensor state = h.at(r, i), next = h.at(r, i + 1), a_t = a.select(1, t), y = output.select(1, t);
    matmul_into(state.slice(0, 0, rows), w.weight_hh.value().transpose(0, 1), 1, a_t.slice(0, 0, rows));
    launch(kernels::rnn_gates, a_t, row_stride(a_t), state, row_stride(state), next, row_stride(next), y, row_stride(y), batch,
           hidden, r.lengths, t);
  }

  const std::vector<Var> inputs{input, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0};
  const std::vector<Tensor> outputs{output, h.last};
  const Var first = record_many("rnn", inputs, outputs,
                                [=, x = Saved(x), w_ih = Saved(w.weight_ih.value()), w_hh = Saved(w.weight_hh.value()),
                                 before = Saved(h.before), output = Saved(output)](const Tensor* gradients) {
                                  const Tensor& doutput = gradients[0];
                                  const Tensor dh = r.start_backward(gradients[1], x);
                                  const Tensor da = empty_like(before.get());
                                  for (i64 i = r.steps - 1; i >= 0; --i) {
                                    const i64 t = r.position(i), rows = r.active(t);
                                    const Tensor dy = doutput.defined() ? doutput.select(1, t) : Tensor();
                                    const Tensor next = output.get().select(1, t), da_t = da.select(1, t);
                                    launch(kernels::rnn_gates_backward, dy, dy.defined() ? row_stride(dy) : i64{0}, next,
                                           row_stride(next), dh, hidden, da_t, row_stride(da_t), batch, hidden, r.lengths, t);
                                    matmul_into(da_t.slice(0, 0, rows), w_hh, 1, dh.slice(0, 0, rows));
                                  }
                                  r.accumulate(input, w, x, w_ih, before, da, da);
                                  if (h0.defined()) h0.accumulate(dh);
                                });
  return {first, first.tape().output(first, 1)};
}

SEQGRAD_CASES(rnn) {
  const auto run = [](Tensor lengths, bool reverse) {
    return [=](const std::vector<Var>& v) -> std::vector<Var> {
      const RecurrentOutput out = rnn(v[0], v.size() > 5 ? v[5] : Var(), {v[1], v[2], v[3], v[4]}, lengths, reverse);
      return {out.output, out.h_n};
    };
  };
  const std::vector<std::string> names{"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0"};
  const auto inputs = [&](i64 batch, i64 steps, bool state = true) {
    std::vector<Tensor> all{cases.normal({batch, steps, 2}), cases.normal({3, 2}), cases.normal({3, 3}), cases.normal({3}),
                            cases.normal({3})};
    if (state) all.push_back(cases.normal({batch, 3}));
    return all;
  };
  const Tensor lengths = Tensor::from<i64>({2, 4, 1}, {3});
  cases.add("rnn", run({}, false), inputs(2, 3), names);
  cases.add("rnn/state of zero", run({}, true), inputs(2, 3, false), names);
  cases.add("rnn/lengths", run(lengths, false), inputs(3, 4), names);
  cases.add("rnn/lengths reverse", run(lengths, true), inputs(3, 4), names);
  cases.add("rnn/an empty row", run(Tensor::from<i64>({0, 2}, {2}), false), inputs(2, 3), names);
  cases.add("rnn/one step", run({}, true), inputs(1, 1), names);
}

}  // namespace seqgrad
