// The check itself is checked: what is right passes, and each way of being wrong is caught and named.
#include "autograd/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/matmul.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor normal(const Dims& shape, u64 seed = 4) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}

using Hand = std::function<void(const Var& a, const Tensor& da)>;  // gives a its gradient da, or something else

// a b, whose gradient to a passes through `hand`.
Var product(const Var& a, const Var& b, const Hand& hand) {
  const Tensor x = a.value(), z = b.value();
  return record("product", {a, b}, matmul(x, z), [=](const Tensor& dy) {
    hand(a, matmul(dy, z.transpose(0, 1)));
    b.accumulate(matmul(x.transpose(0, 1), dy));
  });
}

GradcheckReport check(const Hand& hand) {
  const auto f = [&](Var a, Var b) {
    const Var y = product(a, b, hand);
    return y + tanh(a);  // whose gradient arrives at a first
  };
  return gradcheck(f, {normal({3, 3}), normal({3, 3}, 5)});
}

Tensor with(const Tensor& x, i64 flat, double value) {
  const Tensor copy = x.clone();
  copy.mutable_data<double>()[flat] = value;
  return copy;
}

}  // namespace

TEST_CASE("every operation's gradient is right") {
  Cases cases;
  add_autograd_cases(cases);
  std::set<std::string> names, operations;
  for (const Case& one : cases.all()) {
    CAPTURE(one.name);
    const GradcheckReport report = run(one);
    CAPTURE(to_string(report));
    CHECK(report.ok());
    CHECK(report.rtol == 1e-7);
    CHECK(names.insert(one.name).second);
    operations.insert(one.name.substr(0, one.name.find('/')));
  }
#define SEQGRAD_NAME(functor, name) #name,
  for (const char* name : {SEQGRAD_UNARY_OPS(SEQGRAD_NAME) SEQGRAD_BINARY_OPS(SEQGRAD_NAME) "affine",
                           "transpose",
                           "slice",
                           "select",
                           "unsqueeze",
                           "reshape",
                           "expand",
                           "cat",
                           "stack",
                           "sum",
                           "mean",
                           "max",
                           "matmul",
                           "linear",
                           "softmax",
                           "log_softmax",
                           "masked_softmax",
                           "cross_entropy",
                           "linear_cross_entropy",
                           "layer_norm",
                           "embedding",
                           "dropout",
                           "additive_scores",
                           "gru_gates",
                           "gru"}) {
    CAPTURE(name);
    CHECK(operations.contains(name));
  }
#undef SEQGRAD_NAME
}

TEST_CASE("a right gradient passes, each wrong one is caught") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(check([](const Var& a, const Tensor& da) { a.accumulate(da); }).ok());
  const std::pair<std::string, Hand> faults[] = {
      {"zeroed", [](const Var& a, const Tensor& da) { a.accumulate(zeros_like(da)); }},
      {"missing", [](const Var&, const Tensor&) {}},
      {"scaled",
       [](const Var& a, const Tensor& da) {
         a.accumulate(matmul(da, Tensor::from<double>({1.01, 0, 0, 0, 1.01, 0, 0, 0, 1.01}, {3, 3})));
       }},
      {"of the other sign",
       [](const Var& a, const Tensor& da) {
         a.accumulate(matmul(Tensor::from<double>({-1, 0, 0, 0, -1, 0, 0, 0, -1}, {3, 3}), da));
       }},
      {"transposed", [](const Var& a, const Tensor& da) { a.accumulate(da.transpose(0, 1)); }},
      {"given twice", [](const Var& a, const Tensor& da) { a.accumulate(da), a.accumulate(da); }},
      {"overwritten",
       [](const Var& a, const Tensor& da) { a.accumulate_with([&](const Tensor& grad, double) { grad.copy_from(da); }); }},
  };
  for (const auto& fault : faults) {
    CAPTURE(fault.first);
    const GradcheckReport report = check(fault.second);
    CHECK(!report.ok());
    CHECK(report.compared == 18);
    CHECK(report.argument == "argument 0");
    CHECK(to_string(report).starts_with("FAILED: worst of 18 entries is argument 0 ("));
  }
  const GradcheckReport dropped = check([](const Var& a, const Tensor& da) { a.accumulate(with(da, 5, 0)); });
  CHECK(!dropped.ok());
  CHECK(dropped.index == Dims{1, 2});
  const GradcheckReport not_a_number = check([=](const Var& a, const Tensor& da) { a.accumulate(with(da, 7, nan)); });
  CHECK(!not_a_number.ok());
  CHECK(not_a_number.index == Dims{2, 1});
  CHECK(std::isnan(not_a_number.error));
  CHECK(message_of([] { check([](const Var& a, const Tensor& da) { a.accumulate(da.slice(0, 0, 2)); }); }) ==
        "[product] a gradient of f64 (2, 3) arrived for a value of f64 (3, 3)");
  CHECK(message_of([] { check([](const Var& a, const Tensor& da) { a.accumulate(da.to(DType::f32)); }); }) ==
        "[product] a gradient of f32 (3, 3) arrived for a value of f64 (3, 3)");
}

TEST_CASE("mistakes that cancel in a sum are caught: cotangents are random") {
  const auto without_gradient = [](Var x) { return record("softmax", {x}, softmax(x).value(), [](const Tensor&) {}); };
  CHECK(!gradcheck(without_gradient, {normal({2, 4})}).ok());
}

TEST_CASE("a forward that is not a number fails") {
  CHECK(!gradcheck([](Var x) { return sqrt(x); }, {full({2}, -1)}).ok());
  CHECK(!gradcheck([](Var x) { return log(x) + 1.0; }, {Tensor::from<double>({1, -1, 2}, {3})}).ok());
}

TEST_CASE("a check that compares nothing fails") {
  const auto identity = [](Var x) { return x * 1.0; };
  CHECK(to_string(gradcheck(identity, {zeros({0, 3})})) == "FAILED: nothing was compared: no argument has an entry\n");
  CHECK(to_string(gradcheck([](Var x) { return slice(x, 0, 0, 0) * 1.0; }, {zeros({2})})) ==
        "FAILED: nothing was compared: the function gives no numbers\n");
  CHECK(to_string(gradcheck([](const std::vector<Var>&) { return std::vector<Var>(); }, {zeros({2})})) ==
        "FAILED: nothing was compared: the function gives no numbers\n");
  CHECK(message_of([] { gradcheck([](Var x) { return x.tape().constant(x.value()); }, {zeros({2})}); }) ==
        "[backward] output 0 does not depend on anything that wants a gradient");
}

TEST_CASE("integers reach the function as they are; all else is checked in f64") {
  const Tensor ids = Tensor::from<i64>({2, 0, 2}, {3});
  const GradcheckReport report = gradcheck([](Var i, Var w) { return embedding(w, i.value()); }, {ids, normal({4, 2})});
  CHECK(report.ok());
  CHECK(report.compared == 8);
  CHECK(report.argument == "argument 1");
  CHECK(gradcheck([](Var x) { return tanh(x); }, {normal({3}).to(DType::f32)}).ok());
  CHECK(to_string(gradcheck([](Var i) { return i; }, {ids})) ==
        "FAILED: nothing was compared: there is no floating-point argument\n");
  CHECK(message_of([] { gradcheck([](Var x) { return x; }, {Tensor()}); }) ==
        "[gradcheck] argument 0 is a tensor without contents");
}

TEST_CASE("as many inputs as the function takes") {
  const Tensor x = normal({2});
  CHECK(gradcheck([](Var a, Var b, Var c, Var d, Var e, Var f) { return a * b + c * d + e * f; },
                  {normal({2}, 1), normal({2}, 2), normal({2}, 3), normal({2}, 4), normal({2}, 5), normal({2}, 6)})
            .ok());
  CHECK(message_of([&] { gradcheck([](Var a, Var b) { return a * b; }, {x}); }) ==
        "[gradcheck] the function takes 2 arguments, not 1");
  CHECK(message_of([&] {
          gradcheck([](Var a) { return a * a; }, {x, x});
        }) == "[gradcheck] the function takes 1 argument, not 2");
}

TEST_CASE("options outside their domain") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto complaint = [](const GradcheckOptions& options) {
    return message_of([&] { gradcheck([](Var x) { return x * x; }, {normal({2})}, options); });
  };
  CHECK(complaint({.eps = 0}) == "[gradcheck] eps is 0: it must be above 0 and below 1");
  CHECK(complaint({.eps = -1e-3}) == "[gradcheck] eps is -0.001: it must be above 0 and below 1");
  CHECK(complaint({.rtol = nan}) == "[gradcheck] rtol is nan: it must be above 0 and below 1");
  CHECK(complaint({.rtol = infinity}) == "[gradcheck] rtol is inf: it must be above 0 and below 1");
  CHECK(complaint({.floor = infinity}) == "[gradcheck] floor is inf: it must be above 0 and finite");
  CHECK(complaint({.nondet_tol = nan}) == "[gradcheck] nondet_tol is nan: it must be at least 0");
  CHECK(complaint({.directions = -1}) == "[gradcheck] directions is -1: it must be at least 0");
  CHECK(complaint({.reach = 0}) == "[gradcheck] reach is 0: it must be above 0");
  CHECK(complaint({.dtype = DType::i64}) == "[gradcheck] gradients are f32 or f64, not i64");
}

TEST_CASE("results that differ from run to run fail, however little, unless that is allowed") {
  int calls = 0;
  const auto shaken = [&](bool forward) {
    return [&, forward](Var v) {
      const Tensor x = v.value();
      const double by = 1e-12 * ++calls;
      const Tensor y = (v * (forward ? 2 + by : 2)).value();
      return record("shaken", {v}, y, [=](const Tensor& dy) {
        const Tensor dx = dy.clone();
        for (i64 i = 0; i < dx.numel(); ++i) dx.mutable_data<double>()[i] *= forward ? 2 : 2 + by;
        v.accumulate(dx);
      });
    };
  };
  const GradcheckReport forward = gradcheck(shaken(true), {normal({4})}), backward = gradcheck(shaken(false), {normal({4})});
  CHECK(forward.error < forward.rtol);
  CHECK(forward.problem.starts_with("the forward is not deterministic: at one point it gave "));
  CHECK(!forward.ok());
  CHECK(backward.error < backward.rtol);
  CHECK(backward.problem.starts_with("the backward is not deterministic: two runs gave argument 0 different gradients, "));
  CHECK(!backward.ok());
  CHECK(gradcheck(shaken(true), {normal({4})}, {.nondet_tol = 1e-8}).ok());
  CHECK(gradcheck(shaken(false), {normal({4})}, {.nondet_tol = 1e-8}).ok());
  Cases cases;
  CHECK(!run(cases.add("shaken", shaken(false), {normal({4})})).ok());
}

TEST_CASE("each of several outputs is differentiated alone, too") {
  // Halves of x, of which the backward counts on both gradients, or takes an absent one for the other's.
  const auto halves = [](auto absent) {
    return [absent](Var x) {
      const i64 middle = x.size(0) / 2;
      const Tensor values[] = {x.value().slice(0, 0, middle).clone(), x.value().slice(0, middle, 2 * middle).clone()};
      const Var first = record_many("halves", {&x, 1}, values, [=](const Tensor* dy) {
        const Tensor dx = zeros({2 * middle}, DType::f64);
        for (int i = 0; i < 2; ++i) {
          const Tensor d = dy[i].defined() ? dy[i] : absent(dy[1 - i]);
          if (d.defined()) dx.slice(0, i * middle, (i + 1) * middle).copy_from(d);
        }
        x.accumulate(dx);
      });
      return std::vector<Var>{first, x.tape().output(first, 1)};
    };
  };
  CHECK(gradcheck(halves([](const Tensor&) { return Tensor(); }), {normal({6})}).ok());
  const GradcheckReport mixed = gradcheck(halves([](const Tensor& other) { return other; }), {normal({6})});
  CHECK(mixed.problem.starts_with("the gradients that the 2 outputs give alone do not add up: at argument 0 ("));
  const GradcheckReport thrown =
      gradcheck(halves([](const Tensor&) -> Tensor { throw_error("no gradient came"); }), {normal({6})});
  CHECK(thrown.problem == "where output 0 alone gets a gradient: [halves] no gradient came");
}

TEST_CASE("large outputs hide nothing of small ones") {
  const Tensor x = Tensor::from<double>({1, 1e8, -3e-3}, {3});
  CHECK(gradcheck([](Var v) { return v * v; }, {x}).ok());
  GradcheckOptions fast;
  fast.directions = 3;
  CHECK(gradcheck([](Var v) { return v * v; }, {x}, fast).ok());
}

TEST_CASE("several outputs and arguments; parameters by their names") {
  CHECK(gradcheck([](Var a, Var b) { return std::vector<Var>{a * b, a - b, a}; }, {normal({2, 3}), normal({3}, 6)}).ok());
  CHECK(gradcheck([](Var a, Var b, Var c, Var d) { return a * b + c * d; },
                  {normal({2}, 1), normal({2}, 2), normal({2}, 3), normal({2}, 4)})
            .ok());
  Parameter good{"good", normal({3, 3}), zeros({3, 3}, DType::f64)}, bad{"bad", normal({3, 3}, 8), zeros({3, 3}, DType::f64)};
  const GradcheckReport report = gradcheck_function(
      [&](Tape& tape, const std::vector<Var>& v) {
        const Var w = tape.parameter(good);
        return std::vector<Var>{
            w * v[0] + product(tape.parameter(bad), w, [](const Var& a, const Tensor& da) { a.accumulate(with(da, 3, 9)); })};
      },
      {{"x", normal({3, 3}, 9)}}, {&good, &bad});
  CHECK(!report.ok());
  CHECK(report.compared == 27);
  CHECK(report.argument == "bad");
  CHECK(report.index == Dims{1, 0});
  CHECK(report.analytic == 9);
  Parameter narrow{"narrow", zeros({1}), zeros({1})};
  CHECK(message_of([&] {
          gradcheck_function(gradcheck_callable([](Var x) { return x; }), {{"x", zeros({1})}}, {&narrow});
        }) == "[gradcheck] parameter narrow is f32: differences need f64");
}

TEST_CASE("the arguments are left as they were") {
  const Tensor x = normal({2, 2});
  const std::vector<double> before = x.to_vector<double>();
  CHECK(gradcheck([](Var v) { return tanh(v); }, {x}).ok());
  CHECK(x.to_vector<double>() == before);
}
