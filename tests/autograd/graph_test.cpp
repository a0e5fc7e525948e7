// The drawing of tapes: what the DOT text says of each node.
#include "autograd/graph.h"

#include <doctest/doctest.h>

#include "autograd/ops.h"

using namespace seqgrad;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

}  // namespace

TEST_CASE("nodes show operation or name, shape, gradient norm and kind") {
  Tape tape;
  Parameter weight{"layer.\"w\"", full({2, 3}, 1, DType::f64), zeros({2, 3}, DType::f64), false};
  const Var x = tape.leaf(full({4, 3}, 2, DType::f64));          // n0
  const Var w = tape.parameter(weight);                          // n1
  const Var y = matmul(x, transpose(w));                         // n2, n3
  const Var z = y + tape.constant(full({4, 2}, 1, DType::f64));  // n4, n5
  const Var loss = sum(z);                                       // n6
  const std::string before = to_dot(tape, {.legend = false});
  CHECK(before.starts_with("digraph tape {\n"));
  CHECK(before.ends_with("}\n"));
  CHECK(holds(before, "n0 [label=\"leaf (4, 3)\", shape=box];"));
  CHECK(holds(before, "n1 [label=\"layer.\\\"w\\\"\\n(2, 3)\", shape=box, style=bold];"));
  CHECK(holds(before, "n2 [label=\"transpose (3, 2)\", shape=ellipse, style=dashed];"));
  CHECK(holds(before, "n3 [label=\"matmul (4, 2)\", shape=ellipse];"));
  CHECK(holds(before, "n4 [label=\"constant (4, 2)\", shape=box, style=dotted];"));
  CHECK(holds(before, "n6 [label=\"sum ()\", shape=ellipse];"));
  for (const char* edge : {"n1 -> n2;", "n0 -> n3;", "n2 -> n3;", "n3 -> n5;", "n4 -> n5;", "n5 -> n6;"})
    CHECK(holds(before, edge));
  CHECK(count(before, " -> ") == 6);
  CHECK_FALSE(holds(before, "gradient"));

  tape.backward(loss, {.keep_gradients = true});
  const std::string after = to_dot(tape, {.title = "a \"sum\""});
  CHECK(holds(after, "label=\"a \\\"sum\\\"\";"));
  CHECK(holds(after, "n0 [label=\"leaf (4, 3)\\ngradient 6.9\", shape=box];"));  // 12 entries of 2
  CHECK(holds(after, "n1 [label=\"layer.\\\"w\\\"\\n(2, 3), gradient 20\", "));  // 6 entries of 8
  CHECK(holds(after, "n2 [label=\"transpose (3, 2)\\ngradient 20\", "));         // the same, seen another way
  CHECK(holds(after, "n3 [label=\"matmul (4, 2)\\ngradient 2.8\", "));
  CHECK(holds(after, "n4 [label=\"constant (4, 2)\", "));
  CHECK(holds(after, "n6 [label=\"sum ()\\ngradient 1\", "));
  CHECK(holds(after, "subgraph cluster_legend {"));
  CHECK(count(after, "[label=\"view, no copy\", shape=ellipse, style=dashed]") == 1);
}

TEST_CASE("a view is what looks at its input's memory, whatever its name") {
  Tape tape;
  const Var x = tape.leaf(full({2, 3}, 1, DType::f64));                                  // n0
  record_view("diagonal", x, [](const Tensor& whole) { return whole.slice(1, 0, 1); });  // n1
  reshape(x, {6});                                                                       // n2
  reshape(transpose(x), {6});                                                            // n3, n4: a copy, n5
  transpose(tape.constant(full({2, 3}, 1, DType::f64)));                                 // n6, n7
  const std::string dot = to_dot(tape);
  CHECK(holds(dot, "n1 [label=\"diagonal (2, 1)\", shape=ellipse, style=dashed];"));
  CHECK(holds(dot, "n2 [label=\"reshape (6)\", shape=ellipse, style=dashed];"));
  CHECK(holds(dot, "n4 [label=\"contiguous (3, 2)\", shape=ellipse];"));
  CHECK(holds(dot, "n7 [label=\"transpose (3, 2)\", shape=ellipse, style=dashed];"));
}

TEST_CASE("a group has a frame and images of its own of the parameters that it uses") {
  Tape tape;
  Parameter weight{"w", full({2, 2}, 1, DType::f64), zeros({2, 2}, DType::f64), false};
  Parameter idle{"idle", full({1}, 1, DType::f64), zeros({1}, DType::f64), false};
  GraphOptions options{.groups = {{"first", 0, 0}, {"second", 0, 0}}, .legend = false};
  const Var x = tape.leaf(full({1, 2}, 1, DType::f64));  // n0
  Var h = matmul(x, tape.parameter(weight));             // n2
  tape.parameter(idle);                                  // n3, which nothing uses
  options.groups[0].end = options.groups[1].begin = tape.size();
  h = tanh(matmul(h, tape.parameter(weight)));  // n4, n5
  options.groups[1].end = tape.size();
  sum(h);  // n6, in no group
  const std::string dot = to_dot(tape, options);
  const std::size_t first = dot.find("subgraph cluster_0 {\n    label=\"first\";"), second = dot.find("subgraph cluster_1 {");
  REQUIRE(first != dot.npos);
  REQUIRE(second != dot.npos);
  const auto in_first = [&](const std::string& text) { return dot.find(text) > first && dot.find(text) < second; };
  CHECK(in_first("n0_0 [label=\"leaf"));
  CHECK(in_first("n1_0 [label=\"w"));
  CHECK(in_first("n2 [label=\"matmul"));
  CHECK(in_first("n3_0 [label=\"idle"));
  CHECK(dot.find("n1_1 [label=\"w") > second);
  CHECK(dot.find("n5 [label=\"tanh") > second);
  for (const char* edge : {"n0_0 -> n2;", "n1_0 -> n2;", "n2 -> n4;", "n1_1 -> n4;", "n4 -> n5;", "n5 -> n6;"})
    CHECK(holds(dot, edge));
  CHECK(count(dot, " -> ") == 6);
  CHECK_FALSE(holds(dot, "legend"));
}

TEST_CASE("an operation's further outputs say so, and repeated operations do not") {
  Tape tape;
  const auto leaf = [&](const Dims& shape) { return tape.leaf(full(shape, 0.5, DType::f64)); };
  const RecurrentWeights weights{leaf({6, 3}), leaf({6, 2}), leaf({6}), leaf({6})};
  const RecurrentOutput out = gru(leaf({1, 4, 3}), {}, weights, {}, false);
  sum(relu(relu(out.h_n)));
  const std::string dot = to_dot(tape);
  CHECK(count(dot, "label=\"gru (1, 4, 2)\"") == 1);
  CHECK(count(dot, "label=\"gru, output 2 (1, 2)\"") == 1);
  CHECK(count(dot, "label=\"relu (1, 2)\"") == 2);
}

TEST_CASE("an empty tape is an empty graph") {
  Tape tape;
  CHECK(to_dot(tape, {.legend = false}).find("n0") == std::string::npos);
}
