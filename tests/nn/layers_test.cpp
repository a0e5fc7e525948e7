// Linear, Embedding and Dropout.
#include "nn/layers.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

struct Root : Module {};

Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE("linear is x weight^T + bias") {
  Root root;
  Linear layer(root, "layer", 3, 2);
  Generator generator(1);
  ParameterBlock block(root, DType::f64, generator);
  Tape tape;
  const Tensor x = randn({2, 4, 3}, DType::f64, generator);
  const Var y = layer(tape.constant(x));
  REQUIRE(y.shape() == Dims{2, 4, 2});
  for (i64 b = 0; b < 2; ++b)
    for (i64 t = 0; t < 4; ++t)
      for (i64 o = 0; o < 2; ++o) {
        double expected = layer.bias.value.at({o});
        for (i64 i = 0; i < 3; ++i) expected += x.at({b, t, i}) * layer.weight.value.at({o, i});
        CHECK(y.value().at({b, t, o}) == doctest::Approx(expected).epsilon(1e-14));
      }
}

TEST_CASE("embedding looks rows up, and its padding row gets no gradient") {
  for (i64 padding : {i64{-1}, i64{0}, i64{2}}) {
    CAPTURE(padding);
    Root root;
    Embedding layer(root, "layer", 4, 2, padding);
    Generator generator(2);
    ParameterBlock block(root, DType::f64, generator);
    Tape tape;
    const std::vector<i64> ids{2, 0, 3, 0, 2, 2};
    const Var y = layer(tape, Tensor::from(ids, {2, 3}));
    REQUIRE(y.shape() == Dims{2, 3, 2});
    tape.backward(sum(y));
    Values count(4, 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const i64 at = static_cast<i64>(i);
      CHECK(values(y.value().select(0, at / 3).select(0, at % 3)) == values(layer.weight.value.select(0, ids[i])));
      if (ids[i] != padding) ++count[static_cast<std::size_t>(ids[i])];
    }
    for (i64 row = 0; row < 4; ++row)
      CHECK(values(layer.weight.grad.select(0, row)) == Values(2, count[static_cast<std::size_t>(row)]));
    if (padding >= 0) CHECK(values(layer.weight.value.select(0, padding)) == Values(2, 0));
  }
  Root root;
  Embedding layer(root, "layer", 4, 2);
  Generator generator(2);
  ParameterBlock block(root, DType::f32, generator);
  Tape tape;
  CHECK(message_of([&] {
          layer(tape, Tensor::from<i64>({1, 4}, {2}));
        }) == "[embedding] id 4 at position 1 is outside a table of 4 rows");
}

TEST_CASE("dropout does nothing in evaluation and without a probability") {
  Tape tape;
  const Var x = tape.leaf(ones({50}));
  Mode evaluation = Mode::evaluation(), training = Mode::training_step(1, 1);
  CHECK(values(Dropout(0.5)(x, evaluation).value()) == Values(50, 1));
  CHECK(evaluation.next_stream == 0);
  CHECK(values(Dropout(0)(x, training).value()) == Values(50, 1));
  CHECK(training.next_stream == u64{1} << 16);
}

TEST_CASE("dropout's masks are a pure function of seed, step and place") {
  const auto masks = [](u64 seed, u64 step) {
    Tape tape;
    Mode mode = Mode::training_step(seed, step);
    const Dropout dropout(0.5);
    const Var x = tape.constant(ones({200}, DType::f64));
    const std::pair<Values, Values> both{values(dropout(x, mode).value()), values(dropout(x, mode).value())};
    CHECK(mode.next_stream == (step << 16) + 2);
    return both;
  };
  CHECK(masks(1, 3) == masks(1, 3));
  CHECK(masks(1, 3).first != masks(1, 3).second);
  CHECK(masks(1, 3).first != masks(1, 4).first);
  CHECK(masks(1, 3).first != masks(2, 3).first);
}

TEST_CASE("dropout keeps 1 - p of its input, scaled so that the mean stays, and the gradient has the same mask") {
  const i64 n = 100000;
  for (DType dtype : {DType::f32, DType::f64})
    for (double p : {0.1, 0.5, 0.75}) {
      CAPTURE(p);
      Tape tape;
      Mode mode = Mode::training_step(4, 0);
      const Var x = tape.leaf(ones({n}, dtype));
      const Var y = Dropout(p)(x, mode);
      tape.backward(sum(y));
      i64 kept = 0;
      bool scaled = true;
      for (double v : values(y.value())) {
        kept += v != 0;
        scaled &= v == 0 || std::fabs(v * (1 - p) - 1) < 1e-6;
      }
      CHECK(scaled);
      // Four standard deviations.
      CHECK(std::fabs(static_cast<double>(kept) / n - (1 - p)) < 4 * std::sqrt(p * (1 - p) / n));
      CHECK(values(x.grad()) == values(y.value()));
    }
}
