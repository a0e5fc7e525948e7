#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "autograd/ops.h"
#include "tensor/random.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

using Values = std::vector<double>;

Tensor vec(const Values& values) { return Tensor::from(values, {static_cast<i64>(values.size())}); }
Tensor grid(const Values& values, const Dims& shape) { return Tensor::from(values, shape); }
Values values(const Tensor& x) { return x.to_vector<double>(); }
Tensor normal(const Dims& shape, u64 seed) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}
double difference(const Tensor& a, const Tensor& b) {
  const Values x = values(a), y = values(b);
  REQUIRE(a.shape() == b.shape());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(x[i] - y[i]));
  return worst;
}

const char* const stale = "a Var was used after its tape was cleared or destroyed: keep its value() if you need it longer";

// x -> 2 x, and an error on the way back while *fail is set.
Var fragile(const Var& x, const bool* fail) {
  return record("fragile", {x}, (x * 2.0).value(), [=](const Tensor& dy) {
    if (*fail) throw_error("no luck");
    x.accumulate(dy);
    x.accumulate(dy);
  });
}

}  // namespace

TEST_CASE("gradients of one tensor used twice add up") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2, 3}));
  tape.backward(sum(x * x + x));
  CHECK(values(x.grad()) == Values{3, 5, 7});
  tape.clear();
  const Var a = tape.leaf(vec({4}));
  const Var b = a + a;
  tape.backward(sum(b + b + a));
  CHECK(values(a.grad()) == Values{5});
}

TEST_CASE("a weight shared across time gets the sum over time") {
  Parameter w{"w", grid({0.5}, {1, 1}), zeros({1, 1}, DType::f64)};
  Tape tape;
  Var h = tape.leaf(grid({3}, {1, 1}));
  for (int t = 0; t < 3; ++t) h = linear(h, tape.parameter(w));
  CHECK(h.value().item() == 0.375);
  tape.backward(sum(h));
  CHECK(w.has_grad);
  CHECK(w.grad.item() == doctest::Approx(3 * 3 * 0.25));
  CHECK(tape.parameter(w).grad().item() == w.grad.item());
}

TEST_CASE("views share their source's gradient") {
  Tape tape;
  Parameter p{"p", vec({1, 2, 3, 4}), full({4}, 77, DType::f64)};
  const Var w = tape.parameter(p);
  const Var left = slice(w, 0, 0, 3), right = slice(w, 0, 1, 4);
  tape.backward(sum(left * 10.0 + right));
  CHECK(values(p.grad) == Values{10, 11, 11, 1});
  CHECK(values(left.grad()) == Values{10, 11, 11});
  CHECK(values(w.grad()) == values(p.grad));

  const Var x = tape.leaf(grid({1, 2, 3, 4, 5, 6}, {2, 3}));
  const Var y = select(transpose(x), 0, 1);  // x's column 1
  tape.backward(sum(y * y) + sum(unsqueeze(transpose(x), 0)));
  CHECK(values(x.grad()) == Values{1, 5, 1, 1, 11, 1});
  CHECK(values(reshape(x, {3, 2}).grad()) == values(x.grad()));
}

TEST_CASE("stale handles say so") {
  Var late;
  {
    Tape tape;
    const Var x = tape.leaf(vec({1}));
    const Tensor kept = x.value();
    tape.clear();
    CHECK(message_of([&] { x.value(); }) == stale);
    CHECK(message_of([&] { x + x; }) == stale);
    CHECK(message_of([&] { tape.backward(x); }) == stale);
    const Var again = tape.leaf(vec({2}));  // the same memory, another life
    CHECK(message_of([&] { x.value(); }) == stale);
    CHECK(again.value().item() == 2);
    CHECK(kept.item() == 1);
    late = again;
  }
  CHECK(message_of([&] { late.grad(); }) == stale);
  Tape other;  // takes the old tape's slot
  CHECK(message_of([&] { late.value(); }) == stale);
  CHECK(message_of([&] { late.tape(); }) == stale);
  CHECK(message_of([] { Var().value(); }) == "a Var without a value was used");
}

TEST_CASE("rewind forgets the tail and keeps the head") {
  Tape tape;
  Parameter p{"p", vec({2}), zeros({1}, DType::f64)}, q{"q", vec({5}), zeros({1}, DType::f64)};
  const Var w = tape.parameter(p);
  const std::size_t head = tape.size();
  for (int i = 0; i < 1000; ++i) {
    const Var y = tanh(w * tape.parameter(q));
    CHECK(tape.size() == head + 3);
    tape.rewind(head);
    CHECK(message_of([&] { y.value(); }) == stale);
  }
  CHECK(w.value().item() == 2);
  tape.backward(sum(w * tape.parameter(q)));
  CHECK(p.grad.item() == 5);
  CHECK(q.grad.item() == 2);
}

TEST_CASE("Vars of two tapes do not mix") {
  Tape one, two;
  const Var x = one.leaf(vec({1})), y = two.leaf(vec({2}));
  CHECK(message_of([&] { x + y; }) == "[add] its arguments belong to different tapes");
  const std::size_t size = one.size();
  CHECK(message_of([&] { one.backward(y); }) == "[backward] output 0 belongs to another tape");
  CHECK(one.size() == size);
  one.backward(sum(x * x));
  CHECK(x.grad().item() == 2);
}

TEST_CASE("a second backward") {
  Tape tape;
  const Var x = tape.leaf(vec({3}));
  const Var y = x * x;
  const Var loss = sum(y);
  tape.backward(loss);
  CHECK(message_of([&] { tape.backward(loss); }) ==
        "[sum] backward ran through here before and let its graph go: pass keep_graph the first time");
  CHECK(x.grad().item() == 6);

  const Var other = sum(x * x);
  tape.backward(other, {.keep_graph = true});
  CHECK(x.grad().item() == 12);
  tape.backward(other, {.keep_graph = true, .keep_gradients = true});
  CHECK(x.grad().item() == 18);
  tape.backward(other);
  CHECK(x.grad().item() == 24);
  CHECK(message_of([&] { tape.backward(sum(y)); }) ==
        "[mul] backward ran through here before and let its graph go: pass keep_graph the first time");
  CHECK(message_of([&] { tape.backward(sum(x), {.keep_graph = true, .release_values = true}); }) ==
        "[backward] keep_graph needs the values that release_values gives back: choose one");
}

TEST_CASE("intermediates' gradients on request") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var y = x * 3.0, loss = sum(y * y);
  tape.backward(loss, {.keep_graph = true});
  CHECK(message_of([&] { y.grad(); }) ==
        "[affine] the gradient of an intermediate was not kept: pass keep_gradients to backward()");
  CHECK(message_of([&] { slice(y, 0, 0, 1).grad(); }) ==
        "[affine] the gradient of an intermediate was not kept: pass keep_gradients to backward()");
  for (int i = 0; i < 2; ++i) {  // each pass's own, not a sum of passes
    tape.backward(loss, {.keep_graph = true, .keep_gradients = true});
    CHECK(values(y.grad()) == Values{6, 12});
    CHECK(values(slice(y, 0, 1, 2).grad()) == Values{12});
    CHECK(loss.grad().item() == 1);
  }
  CHECK(values(x.grad()) == Values{54, 108});
  CHECK(tape.nodes()[1].grad.defined());
}

TEST_CASE("what got no gradient has zeros; what wants none says so") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2})), unused = tape.leaf(vec({3})), c = tape.constant(vec({5, 6}));
  const Var aside = x * 2.0;
  tape.backward(sum(x * c));
  CHECK(values(unused.grad()) == Values{0});
  CHECK(values(aside.grad()) == Values{0, 0});
  CHECK(values(x.grad()) == Values{5, 6});
  CHECK(!c.requires_grad());
  CHECK(!(c * c).requires_grad());
  CHECK(message_of([&] { c.grad(); }) == "[constant] has no gradient: nothing it depends on asks for one");
  CHECK(message_of([&] { tape.backward(sum(c)); }) == "[backward] output 0 does not depend on anything that wants a gradient");
  CHECK(message_of([&] { tape.leaf(Tensor::from<i64>({1}, {1})); }) ==
        "[leaf] a gradient needs a floating-point tensor, not i64");
  CHECK(message_of([&] { tape.backward(x * c); }) ==
        "[backward] needs a loss of one element, not (2): pass a cotangent of that shape");
}

TEST_CASE("values given back as soon as they are used") {
  Tape tape;
  const Var x = tape.leaf(normal({4, 3}, 1)), w = tape.leaf(normal({3, 3}, 2));
  const auto loss = [&] { return sum(mean(tanh(linear(slice(x, 0, 1, 4), w)), 0) * 2.0); };
  tape.backward(loss());
  const Tensor expected = w.grad().clone();
  const std::size_t before = memory_statistics().in_use;
  const Var y = tanh(linear(x, w));
  const Var z = loss();
  tape.backward(z, {.release_values = true});
  CHECK(difference(w.grad(), expected.clone()) > 0);  // twice by now
  CHECK(w.grad().at({0, 0}) == doctest::Approx(2 * expected.at({0, 0})));
  CHECK(x.value().numel() == 12);
  CHECK(y.value().numel() == 12);
  CHECK(message_of([&] { z.value(); }) ==
        "[sum] the value was released by the backward pass: read it before, or leave release_values off");
  const Tensor one = full({}, 1, DType::f64);
  CHECK(message_of([&] {
          tape.backward({&z, 1}, {&one, 1});
        }) == "[sum] the value was released by the backward pass: read it before, or leave release_values off");
  CHECK(memory_statistics().in_use - before < 1000);
}

TEST_CASE("a tensor overwritten between forward and backward is noticed, by the operation that needs it") {
  Tape tape;
  const Tensor data = vec({1, 2});
  const Var x = tape.leaf(data);
  const Var loss = sum(tanh(x * x));
  data.fill(7);
  CHECK(message_of([&] {
          tape.backward(loss);
        }).starts_with("[mul] a tensor of shape (2) that the backward needs was overwritten after the forward"));
  tape.clear();
  const Var y = tanh(tape.leaf(vec({1})));
  y.value().fill(0);
  CHECK(message_of([&] { tape.backward(y); }).starts_with("[tanh] a tensor of shape (1) that the backward needs"));
}

TEST_CASE("what the backward does not read may be overwritten") {
  Tape tape;
  const Tensor data = vec({3, 4});
  const Var x = tape.leaf(data), w = tape.leaf(vec({5, 6}));
  const Var y = x + w, z = relu(y * w), loss = sum(z / w);
  x.value().fill(0);     // add reads neither side
  z.value().fill(1000);  // relu reads its input, the division its own result and w
  tape.backward(loss);
  CHECK(values(x.grad()) == Values{1, 1});
  // Value and gradient that the operation reads, each by itself.
  const std::pair<Var (*)(const Var&), bool> reading[] = {{tanh, false}, {sigmoid, false}, {exp, false},
                                                          {sqrt, false}, {log, true},      {relu, true}};
  for (const auto& [function, reads_input] : reading)
    for (const bool spoil_input : {true, false}) {
      tape.clear();
      const Var input = tape.leaf(vec({2})), output = function(input);
      CAPTURE(output.op());
      (spoil_input ? input : output).value().fill(1);
      const bool fails = message_of([&] { tape.backward(output); }).find("was overwritten") != std::string::npos;
      CHECK(fails == (spoil_input == reads_input));
    }
}

TEST_CASE("a closure may take the value as its second argument") {
  Tape tape;
  const auto square_root = [](const Var& x) {
    Tensor root = sqrt(x).value().clone();
    return record("root", {x}, std::move(root),
                  [x](const Tensor& dy, const SavedVar& y) { x.accumulate(vec({dy.item() / (2 * y.value().item())})); });
  };
  const Var x = tape.leaf(vec({16}));
  tape.backward(square_root(x), {.keep_graph = true, .keep_gradients = true});
  CHECK(x.grad().item() == 0.125);
  const Var y = square_root(x);
  y.value().fill(1);
  CHECK(message_of([&] { tape.backward(y); }) ==
        "[root] a tensor of shape (1) that the backward needs was overwritten after the forward");
}

TEST_CASE("a view of a leaf survives the release of values") {
  Tape tape;
  const Var x = tape.leaf(grid({1, 2, 3, 4}, {2, 2}));
  const Var row = select(x, 0, 0), first = sum(tanh(row)), second = sum(row * row);
  tape.backward(first, {.release_values = true});
  const Values before = values(x.grad());
  tape.backward(second, {.release_values = true});
  CHECK(values(x.grad())[0] == before[0] + 2);
  CHECK(values(x.grad())[1] == before[1] + 4);
  CHECK(values(x.grad())[2] == 0);
}

TEST_CASE("a gradient goes through views that keep every element, in any order and number") {
  Tape tape;
  const Tensor data = grid({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto check = [&](const std::function<Var(const Var&)>& f, const Values& expected, const std::string& what) {
    CAPTURE(what);
    for (const bool intermediate : {false, true}) {
      tape.clear();
      const Var x = tape.leaf(data), y = intermediate ? x * 1.0 : x;
      tape.backward(sum(f(y)), {.release_values = true});
      CHECK(values(x.grad()) == expected);
      tape.clear();
      Parameter p{"p", data, full({2, 3}, 77, DType::f64)};
      tape.backward(sum(f(tape.parameter(p))));
      CHECK(values(p.grad) == expected);
    }
  };
  check([](const Var& x) { return tanh(reshape(unsqueeze(x, 0), {6})) * 0.0 + reshape(x, {6}); }, {1, 1, 1, 1, 1, 1}, "add");
  check([](const Var& x) { return reshape(x, {3, 2}) * reshape(x, {3, 2}); }, {2, 4, 6, 8, 10, 12}, "twice, and moved in");
  check([](const Var& x) { return transpose(x) * transpose(x); }, {2, 4, 6, 8, 10, 12}, "transposed");
  check([](const Var& x) { return reshape(transpose(x), {6}) * 3.0; }, {3, 3, 3, 3, 3, 3}, "through a copy");
  check([](const Var& x) { return sum(x * x) + sum(reshape(x, {6}) * 2.0) + sum(slice(x, 0, 1, 2)); }, {4, 6, 8, 11, 13, 15},
        "the source first");
  check([](const Var& x) { return sum(slice(x, 0, 1, 2)) + sum(transpose(x) * 2.0) + sum(x); }, {3, 3, 3, 4, 4, 4},
        "a part first");
  check(
      [](const Var& x) {
        return linear(x, reshape(unsqueeze(select(x, 0, 0), 0), {1, 3}));
      },
      {6, 9, 12, 1, 2, 3}, "a product into a view");
}

TEST_CASE("views of a parameter start afresh in every pass") {
  Tape tape;
  Parameter p{"p", grid({1, 2, 3, 4}, {2, 2}), full({2, 2}, 77, DType::f64)};
  const Var w = tape.parameter(p), x = tape.constant(grid({1, 10}, {1, 2}));
  for (int pass = 0; pass < 3; ++pass) {
    p.has_grad = false;
    const Var y = linear(x, slice(w, 0, 0, 1)), z = linear(x, unsqueeze(select(w, 0, 1), 0));  // put-off products
    tape.backward(sum(y + z * 2.0) + sum(transpose(w)));
    CHECK(values(p.grad) == Values{2, 11, 3, 21});
  }
}

TEST_CASE("without recording") {
  Tape tape;
  const Var x = tape.leaf(vec({2}));
  Var y;
  {
    const NoGrad outer;
    { const NoGrad inner; }
    CHECK(NoGrad::active());
    y = slice(x * x, 0, 0, 1);
    CHECK(!y.requires_grad());
  }
  CHECK(!NoGrad::active());
  CHECK(y.value().item() == 4);
  tape.backward(x * y);
  CHECK(x.grad().item() == 4);
}

TEST_CASE("a leaf as the loss, a view as the loss") {
  Tape tape;
  const Var x = tape.leaf(vec({2}));
  tape.backward(x);
  CHECK(x.grad().item() == 1);
  const Var y = tape.leaf(vec({1, 2, 3}));
  tape.backward(select(y, 0, 1));
  tape.backward(slice(y * y, 0, 2, 3));
  CHECK(values(y.grad()) == Values{0, 1, 6});
}

TEST_CASE("several outputs with their cotangents") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  const Var outputs[] = {x * x, sum(x), x, slice(x, 0, 0, 1), x * x};
  const Tensor cotangents[] = {vec({1, 10}), full({}, 100, DType::f64), vec({1000, 0}), vec({5}), vec({0, 0})};
  tape.backward(outputs, cotangents);
  CHECK(values(x.grad()) == Values{1107, 140});
  CHECK(message_of([&] { tape.backward({outputs, 2}, {cotangents, 1}); }) == "[backward] 2 outputs, but 1 cotangents");
  // Nothing is added before everything is checked.
  const Var fresh[] = {x * 2.0, x * 3.0};
  const Tensor wrong[] = {vec({1, 1}), vec({1})};
  CHECK(message_of([&] { tape.backward(fresh, wrong); }) == "[backward] the cotangent has shape (1), its output (2)");
  tape.backward(sum(fresh[0]));
  CHECK(values(x.grad()) == Values{1109, 142});
}

TEST_CASE("an operation with several outputs, of which some are used") {
  Tape tape;
  const auto split = [](const Var& x, std::string* arrived) {
    const Tensor values[] = {(x * 1.0).value(), (x * 2.0).value(), (x * 3.0).value()};
    const Var first = record_many("split", {&x, 1}, values, [=](const Tensor* dy) {
      for (int i = 0; i < 3; ++i) {
        *arrived += dy[i].defined() ? '1' : '0';
        if (dy[i].defined()) x.accumulate(values[i]), x.accumulate(dy[i]);
      }
    });
    return std::vector<Var>{first, first.tape().output(first, 1), first.tape().output(first, 2)};
  };
  for (const char* used : {"100", "010", "001", "101", "111"}) {
    const Var x = tape.leaf(vec({1}));
    std::string arrived;
    const std::vector<Var> parts = split(x, &arrived);
    Var loss = x * 0.0;
    for (std::size_t i = 0; i < 3; ++i)
      if (used[i] == '1') loss = loss + parts[i] * parts[i];
    tape.backward(sum(loss));
    CHECK(arrived == used);
  }
}

TEST_CASE("a parameter has one node and keeps its gradient between tapes") {
  Parameter p{"p", vec({3}), vec({0}), false}, empty{"q", {}, {}};
  {
    Tape tape;
    tape.parameter(p);
    const Var w = tape.parameter(p);
    CHECK(tape.size() == 1);
    CHECK(values(w.grad()) == Values{0});  // nothing arrived
    tape.backward(sum(w * w));
    CHECK(tape.nodes()[0].name == "p");
    tape.clear();
    tape.backward(sum(tape.parameter(p) * 1.0));
    CHECK(message_of([&] { tape.parameter(empty); }) == "parameter q has no memory yet: initialise the module first");
  }
  CHECK(p.grad.item() == 7);
  p.has_grad = false;  // what zero_grad does: the old gradient must not count
  Tape tape;
  tape.backward(sum(tape.parameter(p) * 2.0));
  CHECK(p.grad.item() == 2);
}

TEST_CASE("ten thousand steps need no stack") {
  Tape tape;
  const Var x = tape.leaf(vec({0.5})), w = tape.leaf(vec({0.9999}));
  for (int round = 0; round < 2; ++round) {
    Var h = x;
    for (int t = 0; t < 10000; ++t) h = slice(h * w, 0, 0, 1);
    tape.backward(sum(h), {.release_values = true});
  }
  CHECK(x.grad().item() == doctest::Approx(2 * std::pow(0.9999, 10000)).epsilon(1e-9));
}

TEST_CASE("put-off products give what direct ones give") {
  for (const i64 rows : {2, 700})  // few rows wait, many are done at once
    for (const bool in_two_parts : {false, true}) {
      CAPTURE(rows);
      Tape tape;
      Parameter p{"w", normal({3, 3}, 1), zeros({3, 3}, DType::f64)};
      const Tensor start = normal({rows, 3}, 2);
      const auto run = [&](const std::function<Var(const Var&, const Var&)>& step) {
        p.has_grad = false;
        const Var w = tape.parameter(p);
        Var h = tape.constant(start);
        for (int t = 0; t < 4; ++t) h = tanh(step(h, w));
        tape.backward(sum(h * h));
        tape.clear();
        return p.grad.clone();
      };
      const Tensor put_off = run([&](const Var& h, const Var& w) {
        if (!in_two_parts) return linear(h, w);
        return linear(slice(h, 1, 0, 1), slice(w, 1, 0, 1)) + linear(slice(h, 1, 1, 3), slice(w, 1, 1, 3));
      });
      const Tensor direct = run([](const Var& h, const Var& w) { return matmul(h, transpose(w)); });
      CHECK(difference(put_off, direct) < 1e-10);
    }
}

TEST_CASE("an error on the way back leaves a usable tape") {
  Tape tape;
  const Var x = tape.leaf(vec({1, 2}));
  bool fail = true;
  const Var middle = fragile(x, &fail) * 1.0, loss = sum(middle * 3.0);
  CHECK(message_of([&] { tape.backward(loss, {.keep_graph = true}); }) == "[fragile] no luck");
  fail = false;
  tape.backward(loss);  // nothing of the failed pass is counted
  CHECK(values(x.grad()) == Values{6, 6});
  tape.backward(sum(x * x));
  CHECK(values(x.grad()) == Values{8, 10});
  tape.clear();
  const Var y = tape.leaf(vec({3}));
  tape.backward(sum(y * y));
  CHECK(y.grad().item() == 6);
}

TEST_CASE("closures and values are freed with their tape, also large ones") {
  const auto token = std::make_shared<int>(1);
  struct Large {
    std::shared_ptr<int> token;
    char bytes[100000];
  };
  {
    Tape tape;
    for (int round = 0; round < 3; ++round) {
      const Var x = tape.leaf(vec({1}));
      for (int i = 0; i < 50; ++i) record("small", {x}, x.value(), [token](const Tensor&) {});
      record("large", {x}, x.value(), [large = Large{token, {}}](const Tensor&) {});
      CHECK(token.use_count() == 52);
      if (round == 1) tape.rewind(1);
      if (round == 1) CHECK(token.use_count() == 1);
      tape.clear();
      CHECK(token.use_count() == 1);
    }
    const Var x = tape.leaf(vec({1}));
    record("small", {x}, x.value(), [token](const Tensor&) {});
  }
  CHECK(token.use_count() == 1);
}
