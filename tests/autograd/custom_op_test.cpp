#include "autograd/custom_op.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor normal(const Dims& shape, u64 seed) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}

Tensor times(const Tensor& a, const Tensor& b) {
  return map([](auto x, auto y) { return x * y; }, a, b);
}

}  // namespace

TEST_CASE("an operation of one input, with the value in its backward") {
  const auto square_root = custom_op(
      "root", [](const Tensor& x) { return map([](auto v) { return std::sqrt(v); }, x); },
      [](const Tensor& dy, const Tensor&, const Tensor& y) { return map([](auto d, auto v) { return d / (2 * v); }, dy, y); });
  const Tensor x = Tensor::from<double>({0.5, 2, 4}, {3});
  CHECK(gradcheck(square_root, {x}).ok());
  CHECK(gradcheck(square_root, {x}, GradcheckOptions::for_dtype(DType::f32)).ok());
  Tape tape;
  CHECK(square_root(tape.leaf(x)).value().at({2}) == 2);
  CHECK(std::string(square_root(tape.leaf(x)).op()) == "root");
}

TEST_CASE("operations of several inputs") {
  const auto product = custom_op("product", times, [](const Tensor& dy, const Tensor& a, const Tensor& b) {
    return std::vector<Tensor>{times(dy, b), times(dy, a)};
  });
  CHECK(gradcheck(product, {normal({3, 4}, 1), normal({3, 4}, 2)}).ok());
  CHECK(gradcheck([&](Var x) { return product(x, x); }, {normal({3, 4}, 1)}).ok());
  CHECK(
      gradcheck([&](Var a, Var b) { return product(transpose(a), b) + tanh(b); }, {normal({3, 4}, 1), normal({4, 3}, 2)}).ok());

  const auto all = custom_op(
      "all",
      [](const std::vector<Tensor>& x) {
        Tensor y = x[0];
        for (std::size_t i = 1; i < x.size(); ++i) y = times(y, x[i]);
        return y.clone();
      },
      [](const Tensor& dy, const std::vector<Tensor>& x) {
        std::vector<Tensor> gradients;
        for (std::size_t i = 0; i < x.size(); ++i) {
          Tensor g = dy;
          for (std::size_t k = 0; k < x.size(); ++k)
            if (k != i) g = times(g, x[k]);
          gradients.push_back(g);
        }
        return gradients;
      });
  CHECK(gradcheck(all, {normal({5}, 1), normal({5}, 2), normal({5}, 3)}).ok());
  CHECK(gradcheck(all, {normal({5}, 1)}).ok());
}

TEST_CASE("an undefined gradient is none") {
  const auto first = custom_op(
      "first", [](const Tensor& a, const Tensor&) { return a.clone(); },
      [](const Tensor& dy, const Tensor&, const Tensor&) {
        return std::vector<Tensor>{dy, Tensor()};
      });
  Tape tape;
  const Var a = tape.leaf(normal({3}, 1)), b = tape.leaf(normal({3}, 2));
  tape.backward(sum(first(a, b)));
  CHECK(a.grad().at({1}) == 1);
  CHECK(b.grad().at({1}) == 0);
}

TEST_CASE("mistakes in a custom operation speak") {
  const auto backward = [](const Tensor& dy, const Tensor&, const Tensor&) { return dy; };
  const auto too_few = custom_op("pair", times, backward);
  CHECK(message_of([&] {
          gradcheck(too_few, {normal({3}, 1), normal({3}, 2)});
        }) == "[pair] backward gave 1 gradients for 2 inputs");
  CHECK(message_of([&] { gradcheck(too_few, {normal({3}, 1)}); }) == "the operation's functions take 2 tensors, not 1");
  CHECK(message_of([&] { too_few(std::vector<Var>{}); }) == "[pair] needs at least one input");
  CHECK(message_of([&] { times(normal({3}, 1), normal({4}, 1)); }) == "[map] the tensors differ in shape or type");
}
