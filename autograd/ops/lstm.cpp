// The long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) as PyTorch has it:
//   a = W_ih x + b_ih + W_hh h + b_hh, four blocks in the order i, f, g, o
//   i = sigmoid(a_i)   f = sigmoid(a_f)   g = tanh(a_g)   o = sigmoid(a_o)
//   c' = f c + i g     h' = o tanh(c')
//
// One step's gradient, d being the gradient to h' and k = tanh(c') (kernels/ops.def lstm_gates_backward):
//   e = dc' + d o (1 - k^2)                                        what reaches c' on both ways
//   da = (e g i (1 - i),  e c f (1 - f),  e i (1 - g^2),  d k o (1 - o))
//   dc = e f           dh = da W_hh
// Over a sequence, d at a step is the gradient to that step's output plus dh of the step after it; the weights' gradients are
// products over all steps (autograd/recurrent.h).
#include "autograd/cases.h"
#include "autograd/recurrent.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {

std::pair<Var, Var> lstm_gates(const Var& a, const Var& c) {
  if (c.dim() != 2 || !(a.shape() == Dims{c.size(0), 4 * c.size(1)}))
    throw_error("[lstm_gates] a {} and c {} do not fit", a.shape(), c.shape());
  const i64 rows = c.size(0), hidden = c.size(1);
  const auto unit_rows = [](const Tensor& t) { return t.strides()[1] == 1 ? t : t.clone(); };
  const Tensor in = unit_rows(a.value()), cell = unit_rows(c.value()), none;
  const Tensor gates({rows, 4 * hidden}, in.dtype(), in.device()), h_next({rows, hidden}, in.dtype(), in.device());
  const Tensor c_next = empty_like(h_next);
  launch(kernels::lstm_gates, in, row_stride(in), none, i64{0}, cell, row_stride(cell), h_next, hidden, c_next, hidden, none,
         i64{0}, gates, 4 * hidden, rows, hidden, none, i64{0});
  const std::vector<Var> inputs{a, c};
  const std::vector<Tensor> outputs{h_next, c_next};
  const Var h =
      record_many("lstm_gates", inputs, outputs, [=, cell = Saved(cell), c_next = Saved(c_next)](const Tensor* gradients) {
        const auto copy = [&](const Tensor& g) { return g.defined() ? g.clone() : zeros_like(c_next); };
        Tensor dh = copy(gradients[0]), dc = copy(gradients[1]), da = empty_like(gates);
        launch(kernels::lstm_gates_backward, none, i64{0}, gates, 4 * hidden, cell.get(), row_stride(cell), c_next.get(),
               hidden, dh, hidden, dc, hidden, da, 4 * hidden, rows, hidden, none, i64{0});
        a.accumulate(std::move(da));
        c.accumulate(std::move(dc));
      });
  return {h, h.tape().output(h, 1)};
}

RecurrentOutput lstm(const Var& input, const Var& h0, const Var& c0, const RecurrentWeights& w, const Tensor& lengths,
                     bool reverse) {
  const Recurrence r("lstm", 4, input, w, lengths, reverse);
  r.check_state("h0", h0);
  r.check_state("c0", c0);
  const i64 batch = r.batch, hidden = r.hidden;
  const Tensor x = input.value().contiguous();
  const Tensor bias = w.bias_ih.value().clone();
  launch(kernels::add_strided, 1.0, w.bias_hh.value(), w.bias_hh.value().strides(), bias, bias.strides(), bias.shape(), 1);
  // First a, then in its place the gates.
  const Tensor gates = r.input_product(x, w.weight_ih.value(), bias);
  const StateSequence h(r, h0, x), c(r, c0, x);
  const Tensor output = empty_like(h.before);
  for (i64 i = 0; i < r.steps; ++i) {
    const i64 t = r.position(i), rows = r.active(t);
    const Tensor state = h.at(r, i), next = h.at(r, i + 1), cell = c.at(r, i), cell_next = c.at(r, i + 1);
    const Tensor gates_t = gates.select(1, t), y = output.select(1, t);
    matmul_into(state.slice(0, 0, rows), w.weight_hh.value().transpose(0, 1), 1, gates_t.slice(0, 0, rows));
    launch(kernels::lstm_gates, gates_t, row_stride(gates_t), state, row_stride(state), cell, row_stride(cell), next,
           row_stride(next), cell_next, row_stride(cell_next), y, row_stride(y), gates_t, row_stride(gates_t), batch, hidden,
           r.lengths, t);
  }

  const std::vector<Var> inputs{input, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0, c0};
  const std::vector<Tensor> outputs{output, h.last, c.last};
  const Var first = record_many("lstm", inputs, outputs,
                                [=, x = Saved(x), w_ih = Saved(w.weight_ih.value()), w_hh = Saved(w.weight_hh.value()),
                                 before = Saved(h.before), last_cell = Saved(c.last)](const Tensor* gradients) {
                                  const Tensor& doutput = gradients[0];
                                  const Tensor dh = r.start_backward(gradients[1], x), dc = r.start_backward(gradients[2], x);
                                  const Tensor da = empty_like(gates);
                                  Tensor cell_next = last_cell;
                                  for (i64 i = r.steps - 1; i >= 0; --i) {
                                    const i64 t = r.position(i), rows = r.active(t);
                                    const Tensor dy = doutput.defined() ? doutput.select(1, t) : Tensor();
                                    const Tensor cell = c.at(r, i), gates_t = gates.select(1, t), da_t = da.select(1, t);
                                    launch(kernels::lstm_gates_backward, dy, dy.defined() ? row_stride(dy) : i64{0}, gates_t,
                                           row_stride(gates_t), cell, row_stride(cell), cell_next, row_stride(cell_next), dh,
                                           hidden, dc, hidden, da_t, row_stride(da_t), batch, hidden, r.lengths, t);
                                    matmul_into(da_t.slice(0, 0, rows), w_hh, 1, dh.slice(0, 0, rows));
                                    cell_next = cell;
                                  }
                                  r.accumulate(input, w, x, w_ih, before, da, da);
                                  if (h0.defined()) h0.accumulate(dh);
                                  if (c0.defined()) c0.accumulate(dc);
                                });
  return {first, first.tape().output(first, 1), first.tape().output(first, 2)};
}

SEQGRAD_CASES(lstm) {
  const auto run = [](Tensor lengths, bool reverse) {
    return [=](const std::vector<Var>& v) -> std::vector<Var> {
      const bool states = v.size() > 5;
      const RecurrentOutput out =
          lstm(v[0], states ? v[5] : Var(), states ? v[6] : Var(), {v[1], v[2], v[3], v[4]}, lengths, reverse);
      return {out.output, out.h_n, out.c_n};
    };
  };
  const std::vector<std::string> names{"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0", "c0"};
  const auto inputs = [&](i64 batch, i64 steps, bool states = true) {
    std::vector<Tensor> all{cases.normal({batch, steps, 2}), cases.normal({12, 2}), cases.normal({12, 3}), cases.normal({12}),
                            cases.normal({12})};
    for (int i = 0; states && i < 2; ++i) all.push_back(cases.normal({batch, 3}));
    return all;
  };
  const Tensor lengths = Tensor::from<i64>({2, 4, 1}, {3});
  cases.add("lstm_gates",
            [](Var a, Var c) -> std::vector<Var> {
              const auto [h, next] = lstm_gates(a, c);
              return {h, next};
            },
            {cases.normal({2, 12}), cases.normal({2, 3})}, {"a", "c"});
  cases.add("lstm", run({}, false), inputs(2, 3), names);
  cases.add("lstm/states of zero", run({}, true), inputs(2, 3, false), names);
  cases.add("lstm/lengths", run(lengths, false), inputs(3, 4), names);
  cases.add("lstm/lengths reverse", run(lengths, true), inputs(3, 4), names);
  cases.add("lstm/an empty row", run(Tensor::from<i64>({0, 2}, {2}), false), inputs(2, 3), names);
  cases.add("lstm/one step", run({}, true), inputs(1, 1), names);
}

}  // namespace seqgrad
