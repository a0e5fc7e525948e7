// What the gradient check does not see: values, single precision, strides, sizes of one and zero, saturation, messages.
// Every registered case is run again in each of these ways; the rest are tables.
#include "autograd/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/cases.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }
Tensor grid(const Values& v, const Dims& shape) { return Tensor::from(v, shape); }
Tensor normal(const Dims& shape, u64 seed = 1) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}
bool finite(const Tensor& x) {
  for (double v : values(x))
    if (!std::isfinite(v)) return false;
  return true;
}

// The same numbers in memory without unit strides.
Tensor spread(const Tensor& x) {
  Dims wide = x.shape();
  wide.insert(0, 2);
  const Tensor memory = full(wide, std::numeric_limits<double>::quiet_NaN(), x.dtype());
  Tensor view = memory.select(0, 1);
  if (x.dim() == 1) {
    view = full({x.size(0), 2}, std::numeric_limits<double>::quiet_NaN(), x.dtype()).select(1, 1);
  } else if (x.dim() > 1) {
    Dims swapped = x.shape();
    std::swap(swapped[0], swapped.back());
    view = full(swapped, 0, x.dtype()).transpose(0, -1);
  }
  view.copy_from(x);
  return view;
}
// The same on a tape: a view of a leaf, whose gradient therefore has those strides too.
Var spread(Tape& tape, const Tensor& x, Var* leaf) {
  if (x.dim() == 0) return *leaf = tape.leaf(x);
  if (x.dim() == 1) {
    *leaf = tape.leaf(stack(std::vector{tape.constant(zeros_like(x)), tape.constant(x)}, 1).value());
    return select(*leaf, 1, 1);
  }
  *leaf = tape.leaf(x.transpose(0, -1).clone());
  return transpose(*leaf, 0, -1);
}

struct Way {
  DType dtype = DType::f64;
  bool strided = false, strided_cotangents = false, twice = false;
  BackwardOptions options = {};
};

// All outputs, then all gradients, of a case run in one of the ways.
std::vector<Tensor> results(const Case& one, const Way& way) {
  Tape tape;
  std::vector<Var> leaves, inputs;
  for (const NamedTensor& input : one.inputs) {
    const Tensor x = input.value.to(way.dtype).clone();
    Var leaf;
    inputs.push_back(way.strided ? spread(tape, x, &leaf) : leaf = tape.leaf(x));
    leaves.push_back(leaf);
  }
  std::vector<Var> outputs = one.function(tape, inputs);
  std::vector<Tensor> found;
  for (const Var& output : outputs) found.push_back(output.value().clone());
  if (way.twice)
    for (const Var& output : one.function(tape, inputs)) outputs.push_back(output);
  Generator generator(5);
  std::vector<Tensor> cotangents;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i == found.size()) generator = Generator(5);
    const Tensor cotangent = randn(outputs[i].shape(), DType::f64, generator).to(way.dtype);
    cotangents.push_back(way.strided_cotangents ? spread(cotangent) : cotangent);
  }
  tape.backward(outputs, cotangents, way.options);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!way.strided)
      found.push_back(leaves[i].grad());
    else if (one.inputs[i].value.dim() == 1)
      found.push_back(leaves[i].grad().select(1, 1));
    else
      found.push_back(one.inputs[i].value.dim() == 0 ? leaves[i].grad() : leaves[i].grad().transpose(0, -1));
  }
  return found;
}

double worst_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double factor = 1, std::size_t from = 0) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = from; i < a.size(); ++i) {
    REQUIRE(a[i].shape() == b[i].shape());
    const Values x = values(a[i]), y = values(b[i]);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double difference = std::fabs(x[k] - factor * y[k]) / std::max(1.0, std::fabs(x[k]));
      if (!(difference <= worst)) worst = difference;
    }
  }
  return worst;
}

void for_each_case(const std::function<void(const Case&, const std::vector<Tensor>& plain)>& check) {
  Cases cases;
  add_autograd_cases(cases);
  for (const Case& one : cases.all()) {
    CAPTURE(one.name);
    check(one, results(one, {}));
  }
}

}  // namespace

TEST_CASE("every case: single precision agrees with double") {
  for_each_case([](const Case& one, const std::vector<Tensor>& plain) {
    const std::vector<Tensor> single = results(one, {.dtype = DType::f32});
    for (const Tensor& x : single) CHECK(x.dtype() == DType::f32);
    CHECK(worst_difference(plain, single) < 2e-5);
  });
}

TEST_CASE("every case: strides of inputs, their gradients and cotangents do not matter") {
  for_each_case([](const Case& one, const std::vector<Tensor>& plain) {
    CHECK(worst_difference(plain, results(one, {.strided = true})) < 1e-12);
    CHECK(worst_difference(plain, results(one, {.strided_cotangents = true})) < 1e-12);
    CHECK(worst_difference(plain, results(one, {.dtype = DType::f32, .strided = true, .strided_cotangents = true})) < 2e-5);
  });
}

TEST_CASE("every case: expanded inputs and cotangents are as their copies") {
  const auto first_row = [](const Tensor& x) { return x.dim() > 0 ? x.slice(0, 0, 1).clone() : x; };
  for_each_case([&](const Case& one, const std::vector<Tensor>&) {
    const auto run = [&](bool copies) {
      Tape tape;
      std::vector<Var> leaves, inputs;
      for (const NamedTensor& input : one.inputs) {
        leaves.push_back(tape.leaf(first_row(input.value)));
        const Var expanded = expand(leaves.back(), input.value.shape());
        inputs.push_back(copies ? expanded * 1.0 : expanded);
      }
      const std::vector<Var> outputs = one.function(tape, inputs);
      Generator generator(5);
      std::vector<Tensor> cotangents, found;
      for (const Var& output : outputs) {
        const Tensor expanded = first_row(randn(output.shape(), DType::f64, generator)).expand(output.shape());
        cotangents.push_back(copies ? expanded.contiguous() : expanded);
        found.push_back(output.value().clone());
      }
      tape.backward(outputs, cotangents);
      for (const Var& leaf : leaves) found.push_back(leaf.grad());
      return found;
    };
    CHECK(worst_difference(run(true), run(false)) < 1e-12);
  });
}

TEST_CASE("every case: gradients accumulate, and the options change none") {
  for_each_case([](const Case& one, const std::vector<Tensor>& plain) {
    const std::vector<Tensor> twice = results(one, {.twice = true});
    CHECK(worst_difference(twice, plain, 2, plain.size() - one.inputs.size()) < 1e-12);
    CHECK(worst_difference(plain, results(one, {.options = {.release_values = true}})) == 0);
    CHECK(worst_difference(plain, results(one, {.options = {.keep_graph = true, .keep_gradients = true}})) == 0);
  });
}

TEST_CASE("elementwise values") {
  const struct {
    std::string name;
    Var (*f)(const Var&);
    std::function<double(double)> plain;
  } table[] = {
      {"exp", exp, [](double x) { return std::exp(x); }},
      {"log", log, [](double x) { return std::log(x); }},
      {"sqrt", sqrt, [](double x) { return std::sqrt(x); }},
      {"tanh", tanh, [](double x) { return std::tanh(x); }},
      {"relu", relu, [](double x) { return x > 0 ? x : 0; }},
      {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
  };
  Generator generator(2);
  for (const auto& row : table)
    for (const Dims& shape : {Dims{}, Dims{1}, Dims{0, 3}, Dims{3, 0}, Dims{17}, Dims{3, 41}, Dims{2, 3, 5}}) {
      const auto& [name, f, plain] = row;
      CAPTURE(row.name);
      CAPTURE(shape);
      const Tensor x = name == "log" || name == "sqrt" ? rand(shape, 0.1, 5, DType::f64, generator)
                                                       : rand(shape, -5, 5, DType::f64, generator);
      Tape tape;
      const Values y = values(f(tape.leaf(x)).value()), y32 = values(f(tape.leaf(x.to(DType::f32))).value());
      const Values in = values(x), in32 = values(x.to(DType::f32));
      for (std::size_t i = 0; i < y.size(); ++i) {
        CHECK(y[i] == doctest::Approx(plain(in[i])).epsilon(1e-13));
        CHECK(y32[i] == doctest::Approx(plain(in32[i])).epsilon(1e-6));
      }
    }
  Tape tape;
  const Var a = tape.leaf(grid({1, 2, 3}, {3, 1})), b = tape.leaf(grid({10, 20}, {2}));
  CHECK(values((a + b).value()) == Values{11, 21, 12, 22, 13, 23});
  CHECK(values((a - b).value()) == Values{-9, -19, -8, -18, -7, -17});
  CHECK(values((a * b).value()) == Values{10, 20, 20, 40, 30, 60});
  CHECK(values((b / a).value()) == Values{10, 20, 5, 10, 10.0 / 3, 20.0 / 3});
  CHECK(values((1.0 - a * 2.0 + 0.5).value()) == Values{-0.5, -2.5, -4.5});
  CHECK(values((-a / 2.0).value()) == Values{-0.5, -1, -1.5});
  CHECK((a * tape.leaf(zeros({0, 3, 1}, DType::f64))).shape() == Dims{0, 3, 1});
}

TEST_CASE("reductions, products and joins: values") {
  Tape tape;
  const Var x = tape.leaf(grid({1, 5, 3, 4, 2, 5}, {2, 3}));
  CHECK(sum(x).value().item() == 20);
  CHECK(values(sum(x, 0).value()) == Values{5, 7, 8});
  CHECK(sum(x, 0, true).shape() == Dims{1, 3});
  CHECK(values(mean(x, -1).value()) == Values{3, 11.0 / 3});
  CHECK(mean(x).value().item() == doctest::Approx(20.0 / 6));
  CHECK(values(max(x, 0).value()) == Values{4, 5, 5});
  CHECK(sum(tape.leaf(zeros({0, 3}))).value().item() == 0);
  CHECK(values(sum(tape.leaf(zeros({0, 3})), 0).value()) == Values{0, 0, 0});
  const Var ties = tape.leaf(grid({7, 7, 7}, {3}));
  tape.backward(max(ties, 0));
  CHECK(values(ties.grad()) == Values{1, 0, 0});
  CHECK(values(matmul(x, transpose(x)).value()) == Values{35, 29, 29, 45});
  CHECK(values(cat(std::vector{x, x}, 0).value()) == Values{1, 5, 3, 4, 2, 5, 1, 5, 3, 4, 2, 5});
  CHECK(values(stack(std::vector{x, x}, -1).value()) == Values{1, 1, 5, 5, 3, 3, 4, 4, 2, 2, 5, 5});
  CHECK(values(cat(std::vector{x, tape.leaf(zeros({2, 0}, DType::f64))}, 1).value()) == values(x.value()));
  const Var table = tape.leaf(grid({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK(values(embedding(table, Tensor::from<i64>({2, 0, 2}, {3})).value()) == Values{5, 6, 1, 2, 5, 6});
}

TEST_CASE("the padding row of an embedding gets no gradient") {
  Tape tape;
  const Var table = tape.leaf(zeros({3, 2}, DType::f64));
  tape.backward(sum(embedding(table, Tensor::from<i64>({1, 0, 1, 2, 0}, {5}), 0)));
  CHECK(values(table.grad()) == Values{0, 0, 2, 2, 1, 1});
}

TEST_CASE("dropout keeps its share, and everything or nothing at the ends") {
  Tape tape;
  const Var x = tape.leaf(ones({100, 100}, DType::f64));
  double kept = 0;
  const Var y = dropout(x, 0.25, 3, 4);
  for (double v : values(y.value())) {
    CHECK((v == 0 || v == 1 / 0.75));
    kept += v != 0;
  }
  CHECK(std::fabs(kept / 10000 - 0.75) < 4 * std::sqrt(0.25 * 0.75 / 10000));
  tape.backward(sum(y));
  CHECK(values(x.grad()) == values(dropout(x, 0.25, 3, 4).value()));
  CHECK(values(dropout(x, 0.25, 3, 5).value()) != values(x.grad()));
  CHECK(values(dropout(x, 0, 3, 4).value()) == values(x.value()));
  CHECK(values(dropout(x, 1, 3, 4).value()) == values(zeros_like(x.value())));
}

TEST_CASE("softmax, its logarithm and the losses: values") {
  Tape tape;
  const Tensor logits = normal({3, 7}), target = Tensor::from<i64>({6, 0, 3}, {3});
  const Var x = tape.leaf(logits);
  const Values in = values(logits), p = values(softmax(x).value()), log_p = values(log_softmax(x).value());
  double plain = 0, smoothed = 0;
  for (std::size_t r = 0; r < 3; ++r) {
    double total = 0;
    for (std::size_t j = 0; j < 7; ++j) total += std::exp(in[r * 7 + j]);
    for (std::size_t j = 0; j < 7; ++j) {
      const double log_of = in[r * 7 + j] - std::log(total);
      CHECK(p[r * 7 + j] == doctest::Approx(std::exp(log_of)).epsilon(1e-13));
      CHECK(log_p[r * 7 + j] == doctest::Approx(log_of).epsilon(1e-13));
      const bool hit = static_cast<i64>(j) == target.data<i64>()[r];
      plain -= hit ? log_of : 0;
      smoothed -= ((hit ? 0.9 : 0) + 0.1 / 7) * log_of;
    }
  }
  CHECK(cross_entropy(x, target).value().item() == doctest::Approx(plain / 3).epsilon(1e-13));
  CHECK(cross_entropy(x, target, {.reduction = Reduction::sum}).value().item() == doctest::Approx(plain).epsilon(1e-13));
  CHECK(cross_entropy(x, target, {.label_smoothing = 0.1}).value().item() == doctest::Approx(smoothed / 3).epsilon(1e-13));
  const Var w = tape.leaf(normal({7, 4}, 2)), b = tape.leaf(normal({7}, 3)), h = tape.leaf(normal({3, 4}, 4));
  for (const CrossEntropyOptions& options : {CrossEntropyOptions{}, CrossEntropyOptions{.ignore_index = 0},
                                             CrossEntropyOptions{.label_smoothing = 0.2, .reduction = Reduction::sum}})
    CHECK(linear_cross_entropy(h, w, b, target, options).value().item() ==
          doctest::Approx(cross_entropy(linear(h, w, b), target, options).value().item()).epsilon(1e-13));
}

TEST_CASE("a row without a real position: all zeros, no NaN, no gradient") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tape tape;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Var x = tape.leaf(grid({1, nan, 2, nan, 3, 1}, {2, 3}).to(dtype));
    const Var y = masked_softmax(x, Tensor::from<bool>({false, false, false, false, true, true}, {2, 3}));
    const Values p = values(y.value());
    CHECK(Values(p.begin(), p.begin() + 4) == Values{0, 0, 0, 0});
    CHECK(p[4] + p[5] == doctest::Approx(1));
    tape.backward(sum(y * y));
    CHECK(finite(x.grad()));
    CHECK(x.grad().at({0, 0}) == 0);
    CHECK(x.grad().at({1, 1}) != 0);
  }
  Tape tape;
  const Var logits = tape.leaf(normal({2, 3}));
  const Var loss = cross_entropy(logits, Tensor::from<i64>({-100, -100}, {2}));  // nothing counts
  CHECK(loss.value().item() == 0);
  tape.backward(loss);
  CHECK(values(logits.grad()) == Values(6, 0));
}

TEST_CASE("saturated inputs: finite values and gradients") {
  const Tensor extreme = grid({300, -300, 0, -300, 300, 300, -300, -300, -300, 300, 300, 300}, {4, 3});
  const Tensor target = Tensor::from<i64>({1, 0, 2, 0}, {4});
  const Tensor mask = Tensor::from<bool>({true, true, false, true, true, true, false, true, false, true, true, true}, {4, 3});
  const std::pair<std::string, std::function<Var(const Var&)>> table[] = {
      {"tanh", [](const Var& x) { return tanh(x); }},
      {"sigmoid", [](const Var& x) { return sigmoid(x); }},
      {"softmax", [](const Var& x) { return softmax(x); }},
      {"log_softmax", [](const Var& x) { return log_softmax(x); }},
      {"masked_softmax", [&](const Var& x) { return masked_softmax(x, mask); }},
      {"cross_entropy", [&](const Var& x) { return cross_entropy(x, target); }},
      {"gru_gates", [](const Var& x) { return gru_gates(x, x, slice(x, 1, 0, 1)); }},
      {"additive_scores", [](const Var& x) { return additive_scores(x, unsqueeze(x, 1), select(x, 0, 0)); }},
  };
  for (DType dtype : {DType::f32, DType::f64})
    for (const auto& row : table) {
      CAPTURE(row.first);
      Tape tape;
      const Var x = tape.leaf(extreme.to(dtype));
      const Var y = row.second(x);
      CHECK(finite(y.value()));
      tape.backward(sum(y));
      CHECK(finite(x.grad()));
    }
  Tape tape;
  CHECK(cross_entropy(tape.leaf(extreme), target).value().item() ==
        doctest::Approx((1200 + std::log(2) + 2 * std::log(3)) / 4));
  CHECK(values(sigmoid(tape.leaf(extreme.slice(0, 0, 1))).value())[2] == 0.5);
}

TEST_CASE("nothing in, nothing out: no rows, no columns, no steps") {
  Tape tape;
  const auto leaf = [&](const Dims& shape) { return tape.leaf(ones(shape, DType::f64)); };
  const Tensor no_ids({0}, DType::i64);
  const Var bias = leaf({5}), weight = leaf({5, 3});
  const RecurrentWeights gru_weights{leaf({6, 3}), leaf({6, 2}), leaf({6}), leaf({6})};
  const std::tuple<std::string, Var, Dims> table[] = {
      {"softmax, no rows", softmax(leaf({0, 5})), {0, 5}},
      {"softmax, no columns", softmax(leaf({2, 0})), {2, 0}},
      {"log_softmax", log_softmax(leaf({0, 5})), {0, 5}},
      {"masked_softmax", masked_softmax(leaf({0, 5}), Tensor({0, 5}, DType::boolean)), {0, 5}},
      {"masked_softmax, no positions", masked_softmax(leaf({2, 0}), Tensor({2, 0}, DType::boolean)), {2, 0}},
      {"cross_entropy", cross_entropy(leaf({0, 5}), no_ids), {}},
      {"linear_cross_entropy", linear_cross_entropy(leaf({0, 3}), weight, bias, no_ids), {}},
      {"linear", linear(leaf({0, 3}), weight, bias), {0, 5}},
      {"linear of steps", linear(leaf({2, 0, 3}), weight, bias), {2, 0, 5}},
      {"linear, no inputs", linear(leaf({2, 0}), leaf({5, 0}), bias), {2, 5}},
      {"matmul of a batch", matmul(leaf({2, 3, 0}), leaf({0, 4})), {2, 3, 4}},
      {"matmul", matmul(leaf({2, 0}), leaf({0, 3})), {2, 3}},
      {"layer_norm", layer_norm(leaf({0, 5}), bias, bias), {0, 5}},
      {"embedding", embedding(weight, no_ids), {0, 3}},
      {"dropout", dropout(leaf({0, 2}), 0.5, 1, 1), {0, 2}},
      {"additive_scores", additive_scores(leaf({2, 5}), leaf({2, 0, 5}), bias), {2, 0}},
      {"max", max(leaf({0, 3}), 1), {0}},
      {"gru, no rows", gru(leaf({0, 4, 3}), {}, gru_weights, {}, false).output, {0, 4, 2}},
      {"gru, no steps", gru(leaf({2, 0, 3}), leaf({2, 2}), gru_weights, {}, true).h_n, {2, 2}},
  };
  for (const auto& row : table) {
    const auto& [name, y, shape] = row;
    CAPTURE(std::get<0>(row));
    CHECK(y.shape() == shape);
    CHECK(finite(y.value()));
    const Tensor cotangent = ones(shape, DType::f64);
    tape.backward({&y, 1}, {&cotangent, 1});
  }
  CHECK(finite(weight.grad()));
  CHECK(values(gru_weights.weight_hh.grad()) == Values(12, 0));
}

TEST_CASE("mistakes are named by their operation") {
  Tape tape;
  const auto f = [&](const Dims& shape) { return tape.leaf(zeros(shape)); };
  const auto ids = [](const std::vector<i64>& v) { return Tensor::from(v, {static_cast<i64>(v.size())}); };
  const Var x = f({2, 3}), x64 = tape.leaf(zeros({2, 3}, DType::f64));
  const Tensor mask({2, 3}, DType::boolean);
  const RecurrentWeights w{f({6, 3}), f({6, 2}), f({6}), f({6})}, narrow{f({6, 4}), f({6, 2}), f({6}), f({6})};
  const auto run_gru = [&](const Dims& shape, const Tensor& lengths) { gru(f(shape), {}, w, lengths, false); };
  const std::pair<std::function<void()>, const char*> table[] = {
      {[&] {
         x + f({2, 4});
       },
       "[add] shapes do not broadcast: (2, 3) and (2, 4)"},
      {[&] { x* x64; }, "[mul] f32 and f64: both sides need one dtype"},
      {[&] {
         x - f({3, 3});
       },
       "[sub] shapes do not broadcast: (2, 3) and (3, 3)"},
      {[&] { x / f({2}); }, "[div] shapes do not broadcast: (2, 3) and (2)"},
      {[&] { transpose(f({3})); }, "dimension -2 does not exist in a tensor of shape (3)"},
      {[&] { slice(x, 1, 2, 4); }, "[slice] 2..4 is not a part of dimension 1 of shape (2, 3)"},
      {[&] { select(x, 0, 2); }, "[select] index 2 is outside dimension 0 of shape (2, 3)"},
      {[&] { reshape(x, {4}); }, "[reshape] (2, 3) has 6 elements and does not fit (4)"},
      {[&] {
         expand(x, {2, 2});
       },
       "[expand] (2, 3) does not expand to (2, 2)"},
      {[&] { cat({}, 0); }, "[cat] needs at least one tensor"},
      {[&] {
         cat(std::vector{x, f({3, 3})}, 1);
       },
       "[cat] (2, 3) and (3, 3) differ in more than dimension 1"},
      {[&] {
         cat(std::vector{x, f({3})}, 0);
       },
       "[cat] (2, 3) and (3) differ in more than dimension 0"},
      {[&] { stack({}, 0); }, "[stack] needs at least one tensor"},
      {[&] {
         stack(std::vector{x, f({2, 4})}, 0);
       },
       "[stack] shapes differ: (2, 3) and (2, 4)"},
      {[&] { stack(std::vector{x}, 3); }, "[stack] dimension 3 is outside shape (2, 3)"},
      {[&] { sum(x, 2); }, "dimension 2 does not exist in a tensor of shape (2, 3)"},
      {[&] {
         max(f({2, 0}), 1);
       },
       "[max] dimension 1 of (2, 0) is empty"},
      {[&] { matmul(x, x); }, "[matmul] inner dimensions differ: (2, 3) x (2, 3)"},
      {[&] {
         matmul(f({2, 1, 3}), f({3, 3, 1}));
       },
       "[matmul] batch sizes differ: (2, 1, 3) x (3, 3, 1)"},
      {[&] { matmul(f({3}), x); }, "[matmul] needs matrices or batches of them, not (3) x (2, 3)"},
      {[&] { matmul(x, transpose(x64)); }, "[matmul] f32 x f64: both sides need one dtype"},
      {[&] {
         linear(x, f({5, 4}));
       },
       "[linear] input (2, 3) does not fit weight (5, 4)"},
      {[&] {
         linear(x, f({5, 3}), f({4}));
       },
       "[linear] bias (4) does not fit weight (5, 3)"},
      {[&] { softmax(f({})); }, "[softmax] needs at least one dimension"},
      {[&] { log_softmax(f({})); }, "[log_softmax] needs at least one dimension"},
      {[&] {
         masked_softmax(x, zeros({2, 3}));
       },
       "[masked_softmax] scores (2, 3) need a bool mask of shape (2, 3), not f32 (2, 3)"},
      {[&] {
         masked_softmax(f({2, 4}), mask);
       },
       "[masked_softmax] scores (2, 4) need a bool mask of shape (2, 4), not bool (2, 3)"},
      {[&] {
         masked_softmax(f({3, 5, 3}), mask);
       },
       "[masked_softmax] scores (3, 5, 3) need a bool mask of shape (3, 3), not bool (2, 3)"},
      {[&] {
         cross_entropy(f({2}), ids({0, 1}));
       },
       "[cross_entropy] needs logits of shape (N, V), not (2)"},
      {[&] { cross_entropy(x, ids({0})); }, "[cross_entropy] 2 rows of logits need i64 targets of shape (2), not i64 (1)"},
      {[&] { cross_entropy(x, zeros({2})); }, "[cross_entropy] 2 rows of logits need i64 targets of shape (2), not f32 (2)"},
      {[&] {
         cross_entropy(x, ids({0, 3}));
       },
       "[cross_entropy] target 3 at row 1 is not one of 3 classes"},
      {[&] {
         cross_entropy(x, ids({0, 1}), {.label_smoothing = 1});
       },
       "[cross_entropy] label smoothing 1 is outside [0, 1)"},
      {[&] {
         linear_cross_entropy(x, f({5, 4}), f({5}), ids({0, 1}));
       },
       "[linear_cross_entropy] x (2, 3), weight (5, 4) and bias (5) do not fit"},
      {[&] {
         linear_cross_entropy(x, f({5, 3}), f({5}), ids({0, -1}));
       },
       "[linear_cross_entropy] target -1 at row 1 is not one of 5 classes"},
      {[&] { layer_norm(x, f({2}), f({3})); }, "[layer_norm] input (2, 3), weight (2) and bias (3) do not fit"},
      {[&] { embedding(f({3}), ids({0})); }, "[embedding] needs a table of shape (V, E), not (3)"},
      {[&] {
         embedding(x, ids({1, 0, 2}));
       },
       "[embedding] id 2 at position 2 is outside a table of 2 rows"},
      {[&] { embedding(x, ids({-1})); }, "[embedding] id -1 at position 0 is outside a table of 2 rows"},
      {[&] { dropout(x, 1.5, 0, 0); }, "[dropout] probability 1.5 is outside [0, 1]"},
      {[&] { dropout(x, std::nan(""), 0, 0); }, "[dropout] probability nan is outside [0, 1]"},
      {[&] {
         additive_scores(x, f({2, 4, 2}), f({3}));
       },
       "[additive_scores] query (2, 3), keys (2, 4, 2) and v (3) do not fit"},
      {[&] {
         gru_gates(f({2, 9}), f({2, 6}), x);
       },
       "[gru_gates] gi (2, 9), gh (2, 6) and h (2, 3) do not fit"},
      {[&] {
         run_gru({2, 3}, {});
       },
       "[gru] needs input (B, S, I), not (2, 3)"},
      {[&] {
         gru(f({2, 4, 3}), {}, narrow, {}, false);
       },
       "[gru] input (2, 4, 3) does not fit weight_ih (6, 4), weight_hh (6, 2)"},
      {[&] {
         gru(f({2, 4, 3}), f({2, 3}), w, {}, false);
       },
       "[gru] h0 (2, 3) should be (2, 2)"},
      {[&] {
         run_gru({2, 4, 3}, ids({1, 2, 3}));
       },
       "[gru] lengths should be i64 (2), not i64 (3)"},
      {[&] {
         run_gru({2, 4, 3}, ids({1, 5}));
       },
       "[gru] length 5 of row 1 is outside 0..4"},
      {[&] {
         run_gru({2, 4, 3}, ids({-1, 4}));
       },
       "[gru] length -1 of row 0 is outside 0..4"},
  };
  for (const auto& [mistake, text] : table) CHECK(message_of(mistake) == text);
}
