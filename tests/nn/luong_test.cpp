// Luong's attentions against plain loops of their equations, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/gradcheck.h"
#include "nn/attention.h"

using namespace seqgrad;
using namespace seqgrad::nn;

namespace {

constexpr i64 B = 3, S = 4, C = 5;

struct Root : Module {};

struct Fixture {
  Fixture(AttentionKind kind, i64 query_width)
      : attention(make_attention(kind, root, "attention", query_width, C, 7)),
        generator(3),
        block(root, DType::f64, generator),
        values(randn({B, S, C}, DType::f64, generator)),
        query(randn({B, query_width}, DType::f64, generator)) {}

  Root root;
  std::unique_ptr<Attention> attention;
  Generator generator;
  ParameterBlock block;
  Tensor values, query;
};

Tensor mask_of(const std::vector<i64>& lengths) {
  std::vector<bool> real;
  for (const i64 length : lengths)
    for (i64 s = 0; s < S; ++s) real.push_back(s < length);
  return Tensor::from(real, {B, S});
}

void check_equation(AttentionKind kind, i64 D) {
  Fixture f(kind, D);
  Tape tape;
  const std::vector<i64> lengths{4, 1, 2};
  const AttentionMemory memory = f.attention->prepare(tape.leaf(f.values), mask_of(lengths));
  const AttentionOutput out = (*f.attention)(tape.leaf(f.query), memory);
  for (i64 b = 0; b < B; ++b) {
    const i64 length = lengths[static_cast<std::size_t>(b)];
    std::vector<double> score, context(C);
    double total = 0;
    for (i64 s = 0; s < length; ++s) {
      double sum = 0;
      for (i64 d = 0; d < D; ++d)
        for (i64 c = 0; c < C; ++c) {
          const double weight = kind == AttentionKind::luong_dot ? d == c : f.block.parameters()[0]->value.at({d, c});
          sum += f.query.at({b, d}) * weight * f.values.at({b, s, c});
        }
      score.push_back(std::exp(sum));
      total += score.back();
    }
    for (i64 s = 0; s < S; ++s) {
      const double weight = s < length ? score[static_cast<std::size_t>(s)] / total : 0;
      CHECK(std::fabs(out.weights.value().at({b, s}) - weight) <= 1e-14);
      if (s >= length) CHECK(out.weights.value().at({b, s}) == 0);
      for (i64 c = 0; c < C; ++c) context[static_cast<std::size_t>(c)] += weight * f.values.at({b, s, c});
    }
    for (i64 c = 0; c < C; ++c)
      CHECK(std::fabs(out.context.value().at({b, c}) - context[static_cast<std::size_t>(c)]) <= 1e-13);
  }
}

}  // namespace

TEST_CASE("Luong's scores are h . x and h W x") {
  check_equation(AttentionKind::luong_dot, C);
  check_equation(AttentionKind::luong_general, C);
  check_equation(AttentionKind::luong_general, 3);
  check_equation(AttentionKind::luong_general, 8);
}

TEST_CASE("luong_general has W (D, C) itself as its parameter, luong_dot none") {
  Fixture general(AttentionKind::luong_general, 3), dot(AttentionKind::luong_dot, C);
  REQUIRE(general.block.parameters().size() == 1);
  CHECK(general.block.parameters()[0]->name == "attention.W");
  CHECK(general.block.parameters()[0]->value.shape() == Dims{3, C});
  for (const double w : general.block.parameters()[0]->value.to_vector<double>()) CHECK(std::fabs(w) <= 1 / std::sqrt(5.0));
  CHECK(dot.block.parameters().empty());
}

TEST_CASE("gradients of Luong's attentions, padding without one") {
  for (const AttentionKind kind : {AttentionKind::luong_dot, AttentionKind::luong_general}) {
    Fixture f(kind, C);
    const GradcheckFunction run = [&](Tape&, const std::vector<Var>& v) -> std::vector<Var> {
      const AttentionOutput out = (*f.attention)(v[1], f.attention->prepare(v[0], mask_of({4, 1, 2})));
      return {out.context, out.weights};
    };
    const GradcheckReport report = gradcheck_function(run, {{"values", f.values}, {"query", f.query}}, f.block.parameters());
    CHECK_MESSAGE(report.ok(), to_string(report));
    Tape tape;
    const Var values = tape.leaf(f.values);
    tape.backward(sum((*f.attention)(tape.leaf(f.query), f.attention->prepare(values, mask_of({4, 1, 2}))).context));
    for (const double g : values.grad().select(0, 1).slice(0, 1, S).to_vector<double>()) CHECK(g == 0);
  }
}

TEST_CASE("luong_dot needs equal widths and says so") {
  Root root;
  CHECK_THROWS_WITH_AS(make_attention(AttentionKind::luong_dot, root, "attention", 3, C, 7),
                       "[luong_dot] the query's width 3 and the values' width 5 differ: luong_general takes both", Error);
}

TEST_CASE("Luong's kinds by name") {
  for (const AttentionKind kind : {AttentionKind::luong_dot, AttentionKind::luong_general})
    CHECK(attention_kind(name_of(kind)) == kind);
  CHECK(attention_kind("luong_dot") == AttentionKind::luong_dot);
  CHECK(attention_kind("luong_general") == AttentionKind::luong_general);
}
