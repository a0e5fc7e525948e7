// Optimisers against loops that read like their equations.
#include "nn/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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

double difference(const Values& ours, const Values& plain) {
  REQUIRE(ours.size() == plain.size());
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double error = std::fabs(ours[i] - plain[i]) / std::max(1.0, std::fabs(plain[i]));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

struct Fixture {
  Fixture(DType dtype, u64 seed) : generator(seed), block(model, dtype, generator) {}

  // Random gradients, also for the plain loop.
  Values draw_gradients(bool with_b = true) {
    block.zero_grad();
    for (Parameter* parameter : block.parameters()) {
      if (!with_b && parameter->name.starts_with("b")) continue;
      parameter->grad.copy_from(randn(parameter->grad.shape(), block.values().dtype(), generator));
      parameter->has_grad = true;
    }
    return values(block.gradients());
  }

  Model model;
  Generator generator;
  ParameterBlock block;
};

}  // namespace

TEST_CASE("Adam is its equations") {
  for (DType dtype : {DType::f64, DType::f32}) {
    Fixture fixture(dtype, 1);
    Adam adam(fixture.block);
    Values w = values(fixture.block.values()), m(w.size(), 0), v(w.size(), 0);
    const double rate = 0.05, scale = 0.7;
    const Tensor scaled = full({}, scale, DType::f64);
    for (int t = 1; t <= 5; ++t) {
      const Values g = fixture.draw_gradients(t != 3);
      adam.step(rate, scaled);
      CHECK(adam.steps() == t);
      for (std::size_t i = 0; i < w.size(); ++i) {
        m[i] = 0.9 * m[i] + (1 - 0.9) * scale * g[i];
        v[i] = 0.999 * v[i] + (1 - 0.999) * (scale * g[i]) * (scale * g[i]);
        const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
        w[i] -= rate * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      const double tolerance = dtype == DType::f64 ? 1e-15 : 1e-6;
      CHECK(difference(values(fixture.block.values()), w) <= tolerance);
      CHECK(difference(values(adam.first_moments()), m) <= tolerance);
      CHECK(difference(values(adam.second_moments()), v) <= tolerance);
    }
  }
}

TEST_CASE("a step whose gradient's scale is not a number changes no parameter") {
  Fixture fixture(DType::f32, 6);
  Adam adam(fixture.block);
  SGD sgd(fixture.block, 0.9);
  const Values before = values(fixture.block.values());
  fixture.draw_gradients();
  fixture.block.parameters()[0]->grad.fill(std::numeric_limits<double>::infinity());
  const ParameterBlock::Clip clip = fixture.block.clip(1);
  CHECK(std::isinf(clip.norm.item()));
  adam.step(0.1, clip.scale);
  sgd.step(0.1, clip.scale);
  CHECK(values(fixture.block.values()) == before);
}

TEST_CASE("a weight decay takes its share of the weights, not of the gradients") {
  Fixture decayed(DType::f64, 5), plain(DType::f64, 5);
  Adam with(decayed.block, 0.8, 0.95, 1e-6, 0.1), without(plain.block, 0.8, 0.95, 1e-6);
  Values w = values(decayed.block.values());
  for (int t = 1; t <= 4; ++t) {
    decayed.draw_gradients();
    plain.draw_gradients();
    const Values before = values(plain.block.values());
    with.step(0.05);
    without.step(0.05);
    const Values after = values(plain.block.values());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = w[i] * (1 - 0.05 * 0.1) + (after[i] - before[i]);
    CHECK(difference(values(decayed.block.values()), w) <= 1e-15);
    CHECK(values(with.first_moments()) == values(without.first_moments()));
    CHECK(values(with.second_moments()) == values(without.second_moments()));
  }
}

TEST_CASE("Adam goes on from its moments and its number of steps") {
  Fixture straight(DType::f64, 2), stopped(DType::f64, 2);
  Adam one(straight.block), first(stopped.block), second(stopped.block);
  for (int t = 0; t < 6; ++t) {
    straight.draw_gradients();
    stopped.draw_gradients();
    one.step(0.01);
    if (t == 3) {
      second.first_moments().copy_from(first.first_moments());
      second.second_moments().copy_from(first.second_moments());
      second.set_steps(first.steps());
    }
    (t < 3 ? first : second).step(0.01);
  }
  CHECK(values(straight.block.values()) == values(stopped.block.values()));
}

TEST_CASE("SGD is its equations, with and without momentum") {
  for (double momentum : {0.0, 0.9})
    for (DType dtype : {DType::f64, DType::f32}) {
      Fixture fixture(dtype, 3);
      SGD sgd(fixture.block, momentum);
      Values w = values(fixture.block.values()), v(w.size(), 0);
      for (int t = 0; t < 5; ++t) {
        const Values g = fixture.draw_gradients(t != 2);
        sgd.step(0.1, full({}, 0.5, DType::f64));
        for (std::size_t i = 0; i < w.size(); ++i) {
          v[i] = momentum * v[i] + 0.5 * g[i];
          w[i] -= 0.1 * v[i];
        }
        CHECK(difference(values(fixture.block.values()), w) <= (dtype == DType::f64 ? 1e-15 : 1e-6));
      }
    }
}

TEST_CASE("Adam finds the bottom of a bowl") {
  Fixture fixture(DType::f64, 4);
  Adam adam(fixture.block);
  for (int t = 0; t < 500; ++t) {
    fixture.block.zero_grad();
    Tape tape;
    Var loss = tape.constant(zeros({}, DType::f64));
    for (Parameter* parameter : fixture.block.parameters()) {
      const Var w = tape.parameter(*parameter) - 3.0;
      loss = loss + sum(w * w);
    }
    tape.backward(loss);
    adam.step(0.05);
  }
  for (const Parameter* parameter : fixture.block.parameters())
    for (double x : values(parameter->value)) CHECK(x == doctest::Approx(3).epsilon(1e-3));
}
