// Which operation made the first number that is not finite.
#include "autograd/anomaly.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/ops.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

// What is said of a sum of `work`'s value and its gradient; "" if all is finite.
std::string said_of(const std::function<Var(Tape&)>& work) {
  AnomalyProbe probe;
  Tape tape;
  tape.set_probe(&probe);
  return message_of([&] { tape.backward(sum(work(tape))); });
}

Tensor row(const std::vector<double>& values) { return Tensor::from(values, {1, static_cast<i64>(values.size())}); }

}  // namespace

TEST_CASE("the first that is not finite is named by value and place") {
  CHECK(first_non_finite(row({1, -2, 1e308})) == "");
  CHECK(first_non_finite(row({1, not_a_number, inf})) == "nan at (0, 1)");
  CHECK(first_non_finite(row({1, 2, -inf})) == "-inf at (0, 2)");
  CHECK(first_non_finite(row({1, 2, inf, not_a_number}).reshape({2, 2}).transpose(0, 1)) == "inf at (0, 1)");
  CHECK(first_non_finite(full({}, inf, DType::f32)) == "inf");
  CHECK(first_non_finite(zeros({0, 3})) == "");
  CHECK(first_non_finite(Tensor::from<i64>({1}, {1})) == "");
  CHECK(first_non_finite(Tensor()) == "");
}

TEST_CASE("a value is found where it is made") {
  CHECK(said_of([](Tape& tape) { return log(tape.leaf(row({1, 0, -1}))); }) == "[log] its value is not finite: -inf at (0, 1)");
  CHECK(said_of([](Tape& tape) {
          return tanh(exp(tape.leaf(row({1, 1000}))) * 2.0);
        }) == "[exp] its value is not finite: inf at (0, 1)");
  CHECK(said_of([](Tape& tape) { return tanh(tape.leaf(row({1, 2}))); }) == "");
}

TEST_CASE("one that was there before is told from one that is made") {
  CHECK(said_of([](Tape& tape) {
          return tanh(tape.leaf(row({1, not_a_number})));
        }) == "[tanh] it reads an input, which is not finite: nan at (0, 1)");
  Parameter weight{"encoder.weight", row({inf, 1}), zeros({1, 2}, DType::f64), false};
  CHECK(said_of([&](Tape& tape) {
          return tape.leaf(row({1, 2})) * tape.parameter(weight);
        }) == "[mul] it reads encoder.weight, which is not finite: inf at (0, 0)");
  // One that does no harm is none.
  CHECK(said_of([&](Tape& tape) { return tanh(tape.leaf(row({inf, 1}))); }) == "");
}

TEST_CASE("a gradient is found where it is made, and the parameter that it is for") {
  CHECK(said_of([](Tape& tape) { return sqrt(tape.leaf(row({4, 0}))); }) == "[sqrt] its gradient is not finite: inf at (0, 1)");
  Parameter weight{"decoder.weight", row({0, 1}), zeros({1, 2}, DType::f64), false};
  CHECK(said_of([&](Tape& tape) { return sqrt(tape.parameter(weight)); }) ==
        "[sqrt] its gradient for decoder.weight is not finite: inf at (0, 0)");
  // Two finite ones, whose sum is not.
  CHECK(said_of([](Tape& tape) {
          const Var x = exp(tape.leaf(row({-10, -11})));
          return x * 1e308 + x * 1e308;
        }) == "[exp] the sum of the gradients that reach its value is not finite: inf at (0, 0)");
}

TEST_CASE("a tape goes on after it, and a tape under the probe computes what one without does") {
  AnomalyProbe probe;
  Tape tape;
  tape.set_probe(&probe);
  const Var bad = tape.leaf(row({0}));
  CHECK_THROWS_AS(log(bad), Error);
  tape.clear();
  const Var x = tape.leaf(row({1, 2}));
  tape.backward(sum(tanh(x) * x));
  Tape plain;
  const Var y = plain.leaf(row({1, 2}));
  plain.backward(sum(tanh(y) * y));
  CHECK(x.grad().to_vector<double>() == y.grad().to_vector<double>());
}
