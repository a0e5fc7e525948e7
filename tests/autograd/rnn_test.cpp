// The fused plain recurrent network against one written from primitive operations.
#include "tests/autograd/recurrent_reference.h"

using namespace seqgrad;
using test::State;

namespace {

State step(const Var& x, const State& state, const RecurrentWeights& w) {
  return {tanh(linear(x, w.weight_ih, w.bias_ih) + linear(state.h, w.weight_hh, w.bias_hh)), {}};
}

RecurrentOutput fused(const Var& x, const State& initial, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  return rnn(x, initial.h, w, lengths, reverse);
}

}  // namespace

TEST_CASE("the fused RNN is the composed one") { test::check_fused(1, false, fused, step); }

TEST_CASE("padding reaches nothing in an RNN") { test::check_padding(1, fused); }

TEST_CASE("an overwritten RNN output is noticed") {
  Tape tape;
  Generator generator(2);
  const auto leaf = [&](const Dims& shape) { return tape.leaf(randn(shape, DType::f64, generator)); };
  const RecurrentOutput out = rnn(leaf({2, 3, 2}), {}, {leaf({2, 2}), leaf({2, 2}), leaf({2}), leaf({2})}, {}, false);
  out.output.value().fill(1);
  CHECK_THROWS_WITH_AS(tape.backward(sum(out.h_n)),
                       "[rnn] a tensor of shape (2, 3, 2) that the backward needs was overwritten after the forward", Error);
}

TEST_CASE("what does not fit an RNN is named") {
  Tape tape;
  const auto f = [&](const Dims& shape) { return tape.leaf(zeros(shape)); };
  const RecurrentWeights w{f({2, 3}), f({2, 2}), f({2}), f({2})};
  CHECK_THROWS_WITH_AS(rnn(f({2, 3}), {}, w, {}, false), "[rnn] needs input (B, S, I), not (2, 3)", Error);
  CHECK_THROWS_WITH_AS(rnn(f({2, 4, 5}), {}, w, {}, false),
                       "[rnn] input (2, 4, 5) does not fit weight_ih (2, 3), weight_hh (2, 2)", Error);
}

TEST_CASE("an RNN of 10,000 steps goes there and back") {
  Tape tape;
  const auto f = [&](const Dims& shape, double value) { return tape.leaf(full(shape, value, DType::f64)); };
  const Var x = f({1, 10000, 1}, 0.1);
  const RecurrentOutput out = rnn(x, {}, {f({1, 1}, 1), f({1, 1}, 1), f({1}, 0), f({1}, 0)}, {}, false);
  tape.backward(sum(out.h_n));
  CHECK(x.grad().at({0, 9999, 0}) > 0);
  CHECK(std::isfinite(x.grad().at({0, 0, 0})));
}
