// The fused GRU against one written from primitive operations.
#include "tests/autograd/recurrent_reference.h"

using namespace seqgrad;
using test::State;

namespace {

// As the equations stand in autograd/ops/gru.cpp.
State step(const Var& x, const State& state, const RecurrentWeights& w) {
  const Var& h = state.h;
  const i64 n = h.size(1);
  const Var gi = linear(x, w.weight_ih, w.bias_ih), gh = linear(h, w.weight_hh, w.bias_hh);
  const Var r = sigmoid(slice(gi, 1, 0, n) + slice(gh, 1, 0, n));
  const Var z = sigmoid(slice(gi, 1, n, 2 * n) + slice(gh, 1, n, 2 * n));
  const Var candidate = tanh(slice(gi, 1, 2 * n, 3 * n) + r * slice(gh, 1, 2 * n, 3 * n));
  return {(1.0 - z) * candidate + z * h, {}};
}

RecurrentOutput fused(const Var& x, const State& initial, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  return gru(x, initial.h, w, lengths, reverse);
}

}  // namespace

TEST_CASE("the fused GRU is the composed one") { test::check_fused(3, false, fused, step); }

TEST_CASE("padding reaches nothing in a GRU") { test::check_padding(3, fused); }
