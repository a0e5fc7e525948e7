// Means of weights against the sums that define them.
#include "nn/averaging.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "nn/layers.h"

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

struct Model : Module {
  Linear a{*this, "a", 7, 5};
  Linear b{*this, "b", 3, 2};
};

Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE("a moving average is its recurrence, and trades places with the weights") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Model model;
    Generator generator(1);
    ParameterBlock block(model, dtype, generator);
    MovingAverage average(block, 0.5);
    Values expected = values(block.values());
    CHECK(values(average.values()) == expected);
    for (i64 step = 1; step <= 12; ++step) {
      for (Parameter* parameter : block.parameters())
        parameter->value.copy_from(randn(parameter->value.shape(), dtype, generator));
      average.update(step);
      const double d = std::min(0.5, (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step)));
      if (step == 7) CHECK(d < 0.5);
      if (step == 9) CHECK(d == 0.5);
      const Values weights = values(block.values());
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = d * expected[i] + (1 - d) * weights[i];
    }
    const Values now = values(average.values());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(now[i] == doctest::Approx(expected[i]).epsilon(dtype == DType::f64 ? 1e-14 : 1e-5));

    const Values weights = values(block.values());
    average.exchange();
    CHECK(values(block.values()) == now);
    CHECK(values(average.values()) == weights);
    CHECK(values(block.parameters()[0]->value)[0] == now[0]);  // the parameters see it
    average.exchange();
    CHECK(values(block.values()) == weights);
  }
}

TEST_CASE("weights are added up with their shares") {
  const Tensor sum = Tensor::from<double>({1, 2, 3}, {3});
  add_weights(sum, Tensor::from<double>({10, 20, 30}, {3}), 0.5);
  CHECK(values(sum) == Values{6, 12, 18});
}
