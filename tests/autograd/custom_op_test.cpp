#include "autograd/custom_op.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

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
  const Tensor x = normal({3}, 1);
  const auto good = [](const Tensor& a) { return a.clone(); };
  const auto gradient = [](const Tensor& dy, const Tensor&) { return dy; };
  const auto complaint = [&](auto forward, auto backward, const std::vector<Tensor>& inputs) {
    return message_of([&] { gradcheck(custom_op("mine", forward, backward), inputs); });
  };
  // Numbers of tensors.
  const auto pair_gradient = [](const Tensor& dy, const Tensor&, const Tensor&) { return dy; };
  CHECK(complaint(times, pair_gradient, {x, x}) == "[mine] backward gave 1 gradient for 2 inputs");
  CHECK(complaint(times, pair_gradient, {x}) == "[mine] forward takes 2 inputs, not 1");
  CHECK(complaint(times, gradient, {x, x}) == "[mine] backward takes 2 tensors, dy and the inputs, not 3");
  CHECK(message_of([&] { custom_op("mine", times, pair_gradient)(std::vector<Var>{}); }) == "[mine] needs at least one input");
  // What forward gives, and does.
  CHECK(complaint([](const Tensor&) { return Tensor(); }, gradient, {x}) == "[mine] forward gave a tensor without contents");
  CHECK(complaint([](const Tensor& a) { return zeros(a.shape(), DType::i64); }, gradient, {x}) ==
        "[mine] forward gave i64: a gradient needs a floating-point tensor");
  CHECK(complaint([](const Tensor&) -> Tensor { throw_error("too hot"); }, gradient, {x}) == "[mine] forward: too hot");
  CHECK(complaint([](const Tensor& a) { return times(a, zeros({4}, DType::f64)); }, gradient, {x}) ==
        "[mine] forward: [map] the tensors differ: f64 (3) and f64 (4)");
  const auto in_place = [](const Tensor& a) {
    a.mutable_data<double>()[0] = 7;
    return a.clone();
  };
  CHECK(complaint(in_place, gradient, {x}) ==
        "[mine] forward wrote into its argument 0, a tensor of shape (3) that others need: clone() it first");
  // What backward gives, and does.
  CHECK(complaint(good, [](const Tensor& dy, const Tensor&) { return dy.slice(0, 0, 2); }, {x}) ==
        "[mine] a gradient of f64 (2) arrived for a value of f64 (3)");
  CHECK(complaint(good, [](const Tensor& dy, const Tensor&) { return dy.to(DType::f32); }, {x}) ==
        "[mine] a gradient of f32 (3) arrived for a value of f64 (3)");
  CHECK(complaint(good, [](const Tensor&, const Tensor&) -> Tensor { throw_error("too cold"); }, {x}) ==
        "[mine] backward: too cold");
  for (const int written : {0, 1, 2}) {
    const auto into = [written](const Tensor& dy, const Tensor& a, const Tensor& y) {
      const Tensor* given[] = {&dy, &a, &y};
      given[written]->mutable_data<double>()[0] = 7;
      return dy;
    };
    CHECK(complaint(good, into, {x}) ==
          fmt::format("[mine] backward wrote into its argument {}, a tensor of shape (3) that others need: clone() it first",
                      written));
  }
  CHECK(message_of([&] { times(x, x.to(DType::f32)); }) == "[map] the tensors differ: f64 (3) and f32 (3)");
}

TEST_CASE("a custom operation that throws leaves a usable tape") {
  bool fail = true;
  const auto fragile = custom_op(
      "fragile", [](const Tensor& x) { return x.clone(); },
      [&](const Tensor& dy, const Tensor&) {
        if (fail) throw std::runtime_error("no luck");
        return dy;
      });
  Tape tape;
  const Var x = tape.leaf(normal({3}, 1)), loss = sum(fragile(x));
  CHECK_THROWS_WITH_AS(tape.backward(loss, {.keep_graph = true}), "no luck", std::runtime_error);
  fail = false;
  tape.backward(loss);
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 1, 1});
}
