// Names, memory and gradients of parameters.
#include "nn/module.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "nn/optimizer.h"
#include "nn/recurrent.h"

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

struct Inner : Module {
  using Module::Module;
  Linear out{*this, "out", 2, 1};
  Parameter& scale = add_parameter("scale", {7}, uniform_within(1));  // a module's own come before its children's
};

struct Small : Module {
  Linear first{*this, "first", 3, 5};
  Inner inner{*this, "inner"};
  Embedding table{*this, "table", 4, 3, 0};
};

Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

const void* address(const Tensor& x) {
  return x.dtype() == DType::f64 ? static_cast<const void*>(x.data<double>()) : x.data<float>();
}

i64 offset(const Tensor& part, const Tensor& whole) {
  return (static_cast<const char*>(address(part)) - static_cast<const char*>(address(whole))) /
         static_cast<i64>(size_of(part.dtype()));
}

}  // namespace

TEST_CASE("parameters have full names, in order of registration, own ones first") {
  Small model;
  const std::vector<std::pair<std::string, i64>> expected{{"first.weight", 15},    {"first.bias", 5},     {"inner.scale", 7},
                                                          {"inner.out.weight", 2}, {"inner.out.bias", 1}, {"table.weight", 12}};
  Generator generator(1);
  ParameterBlock block(model, DType::f32, generator);
  REQUIRE(model.parameters().size() == expected.size());
  CHECK(model.parameters() == block.parameters());
  CHECK(model.parameter_count() == 42);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(block.parameters()[i]->name == expected[i].first);
    CHECK(block.parameters()[i]->value.numel() == expected[i].second);
    CHECK(block.parameters()[i]->grad.shape() == block.parameters()[i]->value.shape());
  }
  CHECK(Small().parameter_count() == 42);  // without a block as well
}

TEST_CASE("a block without initial values has the same layout, and its gaps are zero") {
  Small model, other;
  Generator generator(1);
  ParameterBlock initial(model, DType::f32, generator), block(other, DType::f32);
  REQUIRE(block.parameters().size() == initial.parameters().size());
  for (std::size_t i = 0; i < block.parameters().size(); ++i) {
    CHECK(block.parameters()[i]->name == initial.parameters()[i]->name);
    CHECK(offset(block.parameters()[i]->value, block.values()) == offset(initial.parameters()[i]->value, initial.values()));
    block.parameters()[i]->value.fill(0);
  }
  for (const double value : values(block.values())) CHECK(value == 0);
  CHECK(block.gradient_norm() == 0);
}

TEST_CASE("each parameter starts at a multiple of 64 bytes, and the gaps stay zero while Adam steps") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Small model;
    Generator generator(2);
    ParameterBlock block(model, dtype, generator);
    Adam adam(block);
    for (int step = 0; step < 3; ++step) {
      block.zero_grad();
      for (Parameter* parameter : block.parameters()) {
        parameter->grad.copy_from(randn(parameter->grad.shape(), dtype, generator));
        parameter->has_grad = true;
      }
      adam.step(0.1);
    }
    std::vector<bool> covered(static_cast<std::size_t>(block.values().numel()));
    for (std::size_t i = 0; i < block.parameters().size(); ++i) {
      const Parameter& parameter = *block.parameters()[i];
      CHECK(reinterpret_cast<std::uintptr_t>(address(parameter.value)) % 64 == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(address(parameter.grad)) % 64 == 0);
      CHECK(parameter.value.shares_memory_with(block.values()));
      CHECK(parameter.grad.shares_memory_with(block.gradients()));
      const i64 begin = offset(parameter.value, block.values());
      CHECK(offset(parameter.grad, block.gradients()) == begin);
      CHECK(address(block.part(block.values(), i)) == address(parameter.value));
      CHECK(values(block.part(block.gradients(), i)) == values(parameter.grad));
      CHECK(block.part(adam.first_moments(), i).shape() == parameter.value.shape());
      for (i64 k = begin; k < begin + parameter.value.numel(); ++k) {
        CHECK(!covered[static_cast<std::size_t>(k)]);
        covered[static_cast<std::size_t>(k)] = true;
      }
    }
    for (const Tensor& block_of : {block.values(), block.gradients(), adam.first_moments(), adam.second_moments()}) {
      const Values all = values(block_of);
      REQUIRE(all.size() == covered.size());
      for (std::size_t k = 0; k < all.size(); ++k) CHECK((covered[k] || all[k] == 0));
    }
  }
}

TEST_CASE("gradients: only what backward reached, zero for the rest, and none of the step before") {
  Small model;
  Generator generator(3);
  ParameterBlock block(model, DType::f64, generator);
  for (Parameter* parameter : block.parameters()) {
    CHECK(!parameter->has_grad);
    parameter->grad.fill(77);  // what an earlier step may have left
  }
  const auto backward = [&] {
    Tape tape;
    tape.backward(sum(model.first(tape.constant(ones({2, 3}, DType::f64)))));
  };
  backward();
  CHECK(model.first.weight.has_grad);
  CHECK(!model.inner.scale.has_grad);
  CHECK(values(model.first.weight.grad) == Values(15, 2));
  CHECK(values(model.first.bias.grad) == Values(5, 2));
  block.gradients();
  CHECK(values(model.inner.scale.grad) == Values(7, 0));
  CHECK(values(model.table.weight.grad) == Values(12, 0));
  CHECK(block.gradient_norm() == doctest::Approx(std::sqrt(20 * 4.0)));
  backward();  // adds
  CHECK(values(model.first.bias.grad) == Values(5, 4));
  block.zero_grad();
  for (const Parameter* parameter : block.parameters()) CHECK(!parameter->has_grad);
  CHECK(block.gradient_norm() == 0);
  block.zero_grad();
  backward();  // starts anew
  CHECK(values(model.first.bias.grad) == Values(5, 2));
}

TEST_CASE("the gradient's norm is that of a plain loop") {
  for (DType dtype : {DType::f32, DType::f64}) {
    struct Root : Module {
    } root;
    GRU gru(root, "gru", 40, 30, 2, true);
    Generator generator(4);
    ParameterBlock block(root, dtype, generator);
    double squares = 0;
    for (Parameter* parameter : block.parameters()) {
      parameter->grad.copy_from(randn(parameter->grad.shape(), dtype, generator));
      parameter->has_grad = true;
      for (double g : values(parameter->grad)) squares += g * g;
    }
    const double norm = std::sqrt(squares);
    CHECK(block.gradient_norm() == doctest::Approx(norm).epsilon(1e-13));
    CHECK(block.clip(norm / 2).scale.item() == doctest::Approx(norm / 2 / (norm + 1e-6)).epsilon(1e-13));
  }
}

TEST_CASE("initial values are PyTorch's, and a pure function of the seed") {
  struct Model : Module {
    Linear linear{*this, "linear", 25, 40};
    GRU gru{*this, "gru", 10, 16};
    Embedding embedding{*this, "embedding", 300, 20, 0};
    Embedding plain{*this, "plain", 30, 20};
  };
  const auto initial = [](u64 seed, DType dtype) {
    Model model;
    Generator generator(seed);
    ParameterBlock block(model, dtype, generator);
    for (const Parameter* parameter : block.parameters()) {
      const std::string name = parameter->name;
      CAPTURE(name);
      const Values all = values(parameter->value);
      double largest = 0, mean = 0, square = 0;
      for (double x : all) {
        largest = std::max(largest, std::fabs(x));
        mean += x / static_cast<double>(all.size());
        square += x * x / static_cast<double>(all.size());
      }
      if (name.starts_with("linear") || name.starts_with("gru")) {
        const double bound = name.starts_with("linear") ? 1.0 / 5 : 1.0 / 4;
        CHECK(largest <= bound);
        CHECK(largest > 0.8 * bound);
      } else {
        CHECK(std::fabs(mean) < 0.15);
        CHECK(square == doctest::Approx(1).epsilon(0.15));
      }
    }
    CHECK(values(model.embedding.weight.value.select(0, 0)) == Values(20, 0));
    CHECK(values(model.plain.weight.value.select(0, 0)) != Values(20, 0));
    return values(block.values());
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    CHECK(initial(5, dtype) == initial(5, dtype));
    CHECK(initial(5, dtype) != initial(6, dtype));
  }
}

TEST_CASE("models that share a parameter by name and shape start from the same values there, whatever else they have") {
  struct First : Module {
    Linear a{*this, "a", 3, 4}, b{*this, "b", 4, 2};
  };
  struct Second : Module {
    Embedding before{*this, "before", 5, 3};
    Linear b{*this, "b", 4, 2}, a{*this, "a", 3, 5};
  };
  First first, again;
  Second second;
  Generator one(7), other(7);
  const ParameterBlock block(first, DType::f64, one), others(second, DType::f64, other);
  CHECK(values(first.b.weight.value) == values(second.b.weight.value));
  CHECK(values(first.b.bias.value) == values(second.b.bias.value));
  CHECK(values(first.a.bias.value) != values(first.b.bias.value));
  const ParameterBlock next(again, DType::f64, one);  // the generator has moved on
  CHECK(values(again.b.weight.value) != values(first.b.weight.value));
}
