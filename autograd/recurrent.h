// What the fused recurrent operations (ops/gru.cpp, lstm.cpp, rnn.cpp) share: checks, the order of steps, states over time, the
// product over all steps before the loop and those after it. Internal to autograd/. Value types.
//
//   const Recurrence r("gru", 3, x, weights, lengths, reverse);
//   for (i64 i = 0; i < r.steps; ++i) {             // backward: from r.steps - 1 down
//     const i64 t = r.position(i), rows = r.active(t);
//     // h.at(r, i) -> h.at(r, i + 1); products need rows 0..rows only
//   }
#pragma once

#include "autograd/ops.h"

namespace seqgrad {

inline i64 row_stride(const Tensor& rows) { return rows.strides()[0]; }

class Recurrence {
 public:
  // x (B, S, I), weights with G = gates x hidden rows, lengths i64 (B) or undefined. Errors begin with "[op]".
  Recurrence(const char* op, i64 gates, const Var& x, const RecurrentWeights& w, const Tensor& lengths, bool reverse);
  void check_state(const char* name, const Var& state) const;  // (B, H) or undefined

  i64 batch, steps, width, hidden;
  Tensor lengths;  // contiguous, or undefined

  // Where in the sequence the i-th step reads.
  i64 position(i64 i) const { return reverse_ ? steps - 1 - i : i; }
  // Rows 0..active(t) hold every row that is still running at t, so that sorted batches do no products on padding.
  i64 active(i64 t) const { return active_[static_cast<std::size_t>(t)]; }

  // x W_ih^T + bias for all steps: (B, S, G)
  Tensor input_product(const Tensor& x, const Tensor& weight_ih, const Tensor& bias) const;
  // Where the backward loop starts: a copy of the gradient to the last state, zeros where none arrived.
  Tensor start_backward(const Tensor& dlast, const Tensor& like) const;
  // dx = dgi W_ih, dW_ih += dgi^T x, dW_hh += dgh^T before, db_ih += sum dgi, db_hh += sum dgh need no order of steps: each is
  // one product over all of them. dgi and dgh (B, S, G) may be the same; before (B, S, H) holds the states that steps start
  // from.
  void accumulate(const Var& input, const RecurrentWeights& w, const Tensor& x, const Tensor& weight_ih, const Tensor& before,
                  const Tensor& dgi, const Tensor& dgh) const;

 private:
  const char* op_;
  bool reverse_;
  std::vector<i64> active_;
};

// A state over time: before[:, t] is what the step at t starts from, last what the final step leaves.
struct StateSequence {
  StateSequence(const Recurrence& r, const Var& initial, const Tensor& like);  // initial undefined: zeros
  Tensor at(const Recurrence& r, i64 i) const { return i < r.steps ? before.select(1, r.position(i)) : last; }

  Tensor before, last;  // (B, S, H), (B, H)
};

}  // namespace seqgrad
