// The fused LSTM against one written from primitive operations.
#include "tests/autograd/recurrent_reference.h"

using namespace seqgrad;
using test::State;

namespace {

// As the equations stand in autograd/ops/lstm.cpp.
State step(const Var& x, const State& state, const RecurrentWeights& w) {
  const i64 n = state.h.size(1);
  const Var a = linear(x, w.weight_ih, w.bias_ih) + linear(state.h, w.weight_hh, w.bias_hh);
  const auto block = [&](i64 k) { return slice(a, 1, k * n, (k + 1) * n); };
  const Var c = sigmoid(block(1)) * state.c + sigmoid(block(0)) * tanh(block(2));
  return {sigmoid(block(3)) * tanh(c), c};
}

RecurrentOutput fused(const Var& x, const State& initial, const RecurrentWeights& w, const Tensor& lengths, bool reverse) {
  return lstm(x, initial.h, initial.c, w, lengths, reverse);
}

}  // namespace

TEST_CASE("the fused LSTM is the composed one") { test::check_fused(4, true, fused, step); }

TEST_CASE("padding reaches nothing in an LSTM") { test::check_padding(4, fused); }

TEST_CASE("one fused LSTM step is one composed step") {
  for (const i64 hidden : {1, 3, 16, 17})
    for (const double scale : {1.0, 300.0})
      for (const int used : {1, 2, 3}) {
        CAPTURE(hidden);
        const auto results = [&](bool one_op) {
          Generator generator(4);
          Tape tape;
          const Var a = tape.leaf(randn({5, 4 * hidden}, DType::f64, generator));
          const Var c = tape.leaf(randn({5, hidden}, DType::f64, generator));
          const Tensor d = randn({hidden, 5}, DType::f64, generator).transpose(0, 1);
          const Var scaled = a * scale;
          const auto block = [&](i64 k) { return slice(scaled, 1, k * hidden, (k + 1) * hidden); };
          std::pair<Var, Var> out;
          if (one_op) {
            out = lstm_gates(scaled, c);
          } else {
            out.second = sigmoid(block(1)) * c + sigmoid(block(0)) * tanh(block(2));
            out.first = sigmoid(block(3)) * tanh(out.second);
          }
          const std::vector<Var> outputs = used == 1   ? std::vector{out.first}
                                           : used == 2 ? std::vector{out.second}
                                                       : std::vector{out.first, out.second};
          tape.backward(outputs, std::vector<Tensor>(outputs.size(), d));
          return std::vector<Tensor>{out.first.value(), out.second.value(), a.grad(), c.grad()};
        };
        CHECK(test::difference(results(true), results(false)) <= 1e-12);
      }
}

TEST_CASE("an overwritten cell state is noticed") {
  Tape tape;
  Generator generator(2);
  const auto leaf = [&](const Dims& shape) { return tape.leaf(randn(shape, DType::f64, generator)); };
  const RecurrentOutput out = lstm(leaf({2, 3, 2}), {}, {}, {leaf({8, 2}), leaf({8, 2}), leaf({8}), leaf({8})}, {}, false);
  out.c_n.value().fill(1);
  CHECK_THROWS_WITH_AS(tape.backward(sum(out.output)),
                       "[lstm] a tensor of shape (2, 2) that the backward needs was overwritten after the forward", Error);
}

TEST_CASE("what does not fit an LSTM is named") {
  Tape tape;
  const auto f = [&](const Dims& shape) { return tape.leaf(zeros(shape)); };
  const RecurrentWeights w{f({8, 3}), f({8, 2}), f({8}), f({8})}, gru_sized{f({6, 3}), f({6, 2}), f({6}), f({6})};
  const Tensor none;
  CHECK_THROWS_WITH_AS(lstm(f({2, 4, 3}), {}, {}, gru_sized, none, false),
                       "[lstm] input (2, 4, 3) does not fit weight_ih (6, 3), weight_hh (6, 2)", Error);
  CHECK_THROWS_WITH_AS(lstm(f({2, 4, 3}), f({2, 2}), f({2, 3}), w, none, false), "[lstm] c0 (2, 3) should be (2, 2)", Error);
  CHECK_THROWS_WITH_AS(lstm(f({2, 4, 3}), {}, {}, w, Tensor::from<i64>({1, 5}, {2}), false),
                       "[lstm] length 5 of row 1 is outside 0..4", Error);
  CHECK_THROWS_WITH_AS(lstm_gates(f({2, 6}), f({2, 2})), "[lstm_gates] a (2, 6) and c (2, 2) do not fit", Error);
}

TEST_CASE("an LSTM of no rows or no steps") {
  Tape tape;
  const auto f = [&](const Dims& shape) { return tape.leaf(ones(shape)); };
  const RecurrentWeights w{f({8, 3}), f({8, 2}), f({8}), f({8})};
  CHECK(lstm(f({0, 4, 3}), {}, {}, w, {}, false).output.shape() == Dims{0, 4, 2});
  const Var c0 = f({2, 2});
  const RecurrentOutput still = lstm(f({2, 0, 3}), {}, c0, w, {}, true);
  CHECK(still.c_n.value().to_vector<float>() == std::vector<float>(4, 1));
  tape.backward(sum(still.c_n));
  CHECK(c0.grad().to_vector<float>() == std::vector<float>(4, 1));
}
