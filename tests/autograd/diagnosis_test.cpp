// Each likely cause is named for a function that is broken in just that way, and for no other.
#include "autograd/diagnosis.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/custom_op.h"
#include "autograd/ops.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor normal(const Dims& shape, u64 seed = 4) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}

template <class F>
std::string cause_of(const F& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  const GradcheckReport report = gradcheck(f, inputs, options);
  CAPTURE(to_string(report));
  CHECK(!report.ok());
  GradcheckOptions fast = options;
  fast.directions = 3;
  const GradcheckReport along = gradcheck(f, inputs, fast);
  CAPTURE(to_string(along));
  CHECK(!along.ok());
  if (!along.along_direction) CHECK(along.cause.substr(0, 10) == report.cause.substr(0, 10));
  return report.cause;
}

bool names(const std::string& cause, const std::string& what) {
  CAPTURE(cause);
  CAPTURE(what);
  const bool found = cause.find(what) != cause.npos;
  CHECK(found);
  return found;
}

// x^2 elementwise, whose gradient goes through `spoil`.
template <class Spoil>
auto square(Spoil spoil) {
  return custom_op(
      "square", [](const Tensor& x) { return map([](auto v) { return v * v; }, x); },
      [spoil](const Tensor& dy, const Tensor& x) { return spoil(map([](auto d, auto v) { return 2 * v * d; }, dy, x)); });
}

Tensor scaled(const Tensor& x, double factor) {
  return map([factor](auto v) { return factor * static_cast<double>(v); }, x);
}

// f(v) of each element, with the derivative df(v).
template <class F, class D>
auto elementwise(F f, D df) {
  return custom_op(
      "elementwise", [f](const Tensor& x) { return map(f, x); },
      [df](const Tensor& dy, const Tensor& x) { return map([df](auto d, auto v) { return d * df(v); }, dy, x); });
}

}  // namespace

TEST_CASE("a right gradient has no cause of failure") {
  const GradcheckReport report = gradcheck(square([](const Tensor& g) { return g; }), {normal({3, 4})});
  CHECK(report.ok());
  CHECK(report.cause == "");
}

TEST_CASE("a forward or backward that is not deterministic") {
  int calls = 0;
  const auto noisy = custom_op(
      "noisy", [&](const Tensor& x) { return scaled(x, 1 + 1e-3 * ++calls); },
      [](const Tensor& dy, const Tensor&) { return dy; });
  names(cause_of(noisy, {normal({3})}), "the forward is not deterministic: at one point it gave ");
  const auto noisy_backward = custom_op(
      "noisy", [](const Tensor& x) { return x.clone(); },
      [&](const Tensor& dy, const Tensor&) { return scaled(dy, 1 + 1e-3 * ++calls); });
  names(cause_of(noisy_backward, {normal({3})}), "the backward is not deterministic: two runs gave argument 0 different");
}

TEST_CASE("what is not a number") {
  const Tensor x = Tensor::from<double>({1, -1, 2}, {3});
  names(cause_of([](Var v) { return sqrt(v); }, {x}), "the function itself is not a number at this point");
  const auto bad = square([](const Tensor& g) { return map([](auto v) { return v > 0 ? v : std::nan(""); }, g); });
  names(cause_of(bad, {normal({8})}), "only the gradient is not a number");
  names(cause_of([](Var v) { return sqrt(v); }, {Tensor::from<double>({1, 1e-4}, {2})}), "the edge of its domain");
}

TEST_CASE("overwritten instead of accumulated, wherever it is used once") {
  const auto overwriting = [](Var v) {
    const Tensor x = v.value();
    return record("square", {v}, map([](auto e) { return e * e; }, x), [v, x](const Tensor& dy) {
      v.accumulate_with(
          [&](const Tensor& grad, double) { grad.copy_from(map([](auto d, auto e) { return 2 * d * e; }, dy, x)); });
    });
  };
  const std::string cause = cause_of(overwriting, {normal({3, 2})});
  names(cause, "overwritten instead of accumulated: of f(x) + f(x) it is ");
  names(cause, " at argument 0 (");
  names(cause_of([&](Var v) { return tanh(v) + overwriting(v); }, {normal({3, 2})}), "overwritten instead of accumulated");
}

TEST_CASE("rounding to f32, in the gradients or in the forward") {
  GradcheckOptions options = GradcheckOptions::for_dtype(DType::f32);
  options.rtol = 1e-9;
  options.floor = 1e-4;
  names(cause_of([](Var v) { return exp(tanh(v)); }, {normal({6})}, options),
        "f32 rounding: the same gradient computed in f64");
  const auto narrow = elementwise([](auto v) { return static_cast<double>(std::exp(static_cast<float>(v))); },
                                  [](auto v) { return std::exp(v); });
  names(cause_of(narrow, {normal({4})}), "f32 rounding: the forward gives the same value in steps of ");
}

TEST_CASE("kinks, jumps and curvature") {
  const Tensor x = Tensor::from<double>({0.7, 0.0005, -0.3}, {3}), at = Tensor::from<double>({0.7, 0, -0.3}, {3});
  const std::string beside = cause_of([](Var v) { return relu(v); }, {x});
  names(beside, "a kink within two steps of 0.001 from 0.0005");
  names(cause_of([](Var v) { return relu(v); }, {at}), "a kink within two steps of 0.001 from 0:");
  const auto step = elementwise([](auto v) { return v + (v > 0.0005 ? 1 : 0); }, [](auto) { return 1; });
  const std::string jump = cause_of(step, {at});
  names(jump, "the function jumps by ");
  names(jump, " at 0.0005, within two steps of 0.001 from 0");
  const auto fast = elementwise([](auto v) { return std::sin(300 * v); }, [](auto v) { return 300 * std::cos(300 * v); });
  names(cause_of(fast, {x}), "the step is too large for the function's curvature: with eps 2.5e-04");
}

TEST_CASE("a tolerance that differences cannot meet") {
  GradcheckOptions options;
  options.rtol = 1e-30;
  names(cause_of([](Var v) { return tanh(v); }, {normal({5})}, options), "the tolerance is finer than differences resolve");
}

TEST_CASE("a step too small for f64") {
  GradcheckOptions options;
  for (const double eps : {1e-30, 1e-16, 1e-12}) {
    options.eps = eps;
    names(cause_of([](Var v) { return tanh(v) + 3.0; }, {normal({5})}, options),
          "the step is too small: f64's rounding hides what it changes; with eps 1e-03 the relative error is ");
  }
}

TEST_CASE("memory that is not contiguous") {
  // Reads its input's memory as if it had no gaps, in the backward only.
  const auto careless = [](Var v) {
    const Tensor x = v.value();
    return record("careless", {v}, map([](auto e) { return e * e; }, x), [v, x](const Tensor& dy) {
      const Tensor dx = empty_like(dy);
      for (i64 i = 0; i < dx.numel(); ++i) dx.mutable_data<double>()[i] = 2 * x.data<double>()[i] * dy.data<double>()[i];
      v.accumulate(dx);
    });
  };
  CHECK(gradcheck(careless, {normal({3, 4})}).ok());
  names(cause_of([&](Var v) { return careless(transpose(v)); }, {normal({3, 4})}),
        "takes memory that is not contiguous for contiguous");
  names(cause_of([&](Var v) { return careless(slice(v, 1, 0, 4)); }, {normal({3, 6})}), "not contiguous");
}

TEST_CASE("transposed, zero, of the other sign, scaled, partly wrong") {
  names(cause_of(square([](const Tensor& g) { return g.transpose(0, 1).clone(); }), {normal({3, 3})}),
        "the gradient of argument 0 is transposed: its axes 0 and 1 change places");
  names(cause_of(square([](const Tensor& g) { return g.transpose(0, 2).clone().reshape(g.shape()); }), {normal({2, 3, 4})}),
        "is transposed: its axes 0 and 2 change places");
  names(cause_of(square([](const Tensor& g) { return zeros_like(g); }), {normal({3, 4})}),
        "the gradient of argument 0 is zero");
  names(cause_of(square([](const Tensor& g) { return scaled(g, -1); }), {normal({3, 4})}), "has the other sign");
  names(cause_of(square([](const Tensor& g) { return scaled(g, 1.01); }), {normal({3, 4})}),
        "is scaled: everywhere 1.01 times");
  const auto dropped = square([](const Tensor& g) {
    const Tensor copy = g.clone();
    copy.mutable_data<double>()[5] = 0;
    return copy;
  });
  names(cause_of(dropped, {normal({3, 4})}), "only 1 of 12 entries of argument 0 that were looked at are wrong");
}

TEST_CASE("a broadcast that is not reduced") {
  const auto with_bias = [](auto reduce) {  // x (3, 4) + b (4)
    return custom_op(
        "bias",
        [](const Tensor& x, const Tensor& b) { return map([](auto a, auto c) { return a + c; }, x, b.expand(x.shape())); },
        [reduce](const Tensor& dy, const Tensor&, const Tensor&) {
          return std::vector<Tensor>{dy, reduce(dy)};
        });
  };
  CHECK(gradcheck(with_bias([](const Tensor& dy) { return sum_to(dy, {4}); }), {normal({3, 4}), normal({4})}).ok());
  names(cause_of(with_bias([](const Tensor& dy) { return scaled(sum_to(dy, {4}), 1.0 / 3); }), {normal({3, 4}), normal({4})}),
        "broadcast not reduced: the gradient of argument 1 is 1/3 of the right one");
  names(
      cause_of(with_bias([](const Tensor& dy) { return dy.select(0, 2).clone(); }), {normal({3, 4}), normal({4})}),
      "broadcast not reduced: the gradient of argument 1 is that of slice 2 alone along axis 0 of the output (3, 4); it needs "
      "the sum of all 3");
  const std::string error = message_of([&] {
    gradcheck(with_bias([](const Tensor& dy) { return dy; }), {normal({3, 4}), normal({4})});
  });
  CHECK(error == "[bias] a gradient of f64 (3, 4) arrived for a value of f64 (4)");
  CHECK(likely_cause(error) ==
        "broadcast not reduced: the backward should sum over the axes that the forward repeats, (3, 4) to (4)");
  CHECK(likely_cause("[f] a gradient of f64 (3, 4) arrived for a value of f64 (4, 3)") == "the gradient is transposed");
  CHECK(likely_cause("[f] a gradient of f32 (3) arrived for a value of f64 (3)") ==
        "the backward computes in another type than the value's");
  CHECK(likely_cause("[f] a gradient of f64 (3) arrived for a value of f64 (4)") == "");
  CHECK(likely_cause("something else") == "");
}

TEST_CASE("the fast check finds the entry among many") {
  GradcheckOptions fast;
  fast.directions = 2;
  const auto wrong_at = [](i64 flat) {
    return square([flat](const Tensor& g) {
      const Tensor copy = g.clone();
      copy.mutable_data<double>()[flat] *= 1.001;
      return copy;
    });
  };
  CHECK(gradcheck(square([](const Tensor& g) { return g; }), {normal({100, 30})}, fast).ok());
  const GradcheckReport report = gradcheck(wrong_at(1234), {normal({100, 30})}, fast);
  CHECK(!report.ok());
  CHECK(report.compared == 2);
  CHECK(report.index == Dims{41, 4});
  CHECK(report.error == doctest::Approx(0.001).epsilon(0.01));
}
