// The kinds of attention against plain loops of their equations, masks, and what they refuse.
#include "nn/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::nn;
using Values = std::vector<double>;

namespace {

constexpr i64 B = 3, S = 4, D = 5, C = 6, K = 3;

struct Root : Module {};

i64 query_width(AttentionKind kind) { return kind == AttentionKind::luong_dot ? C : D; }

struct Fixture {
  explicit Fixture(AttentionKind kind)
      : attention(make_attention(kind, root, "attention", query_width(kind), C, K)),
        generator(static_cast<u64>(kind) + 1),
        block(root, DType::f64, generator),
        values(randn({B, S, C}, DType::f64, generator)),
        query(randn({B, query_width(kind)}, DType::f64, generator)) {
    // Larger than the initial values, so that the weights are far from equal.
    for (Parameter* parameter : block.parameters())
      parameter->value.copy_from(randn(parameter->value.shape(), DType::f64, generator));
  }
  const Tensor& parameter(const std::string& name) {
    for (Parameter* one : block.parameters())
      if (one->name == "attention." + name) return one->value;
    throw_error("no {}", name);
  }

  Root root;
  std::unique_ptr<Attention> attention;
  Generator generator;
  ParameterBlock block;
  Tensor values, query;
};

Tensor mask_of(const std::vector<i64>& lengths) {
  std::vector<bool> real;
  for (i64 length : lengths)
    for (i64 s = 0; s < S; ++s) real.push_back(s < length);
  return Tensor::from(real, {static_cast<i64>(lengths.size()), S});
}

// W x + b
Values product(const Tensor& weight, const Tensor& bias, const Tensor& x) {
  Values y;
  for (i64 k = 0; k < weight.size(0); ++k) {
    y.push_back(bias.at({k}));
    for (i64 i = 0; i < weight.size(1); ++i) y.back() += weight.at({k, i}) * x.at({i});
  }
  return y;
}

// The score of one position, every bias included.
double score(Fixture& f, AttentionKind kind, i64 b, i64 s) {
  if (kind == AttentionKind::mean) return 0;
  const bool general = kind == AttentionKind::luong_general;
  if (general || kind == AttentionKind::luong_dot) {
    double total = 0;
    for (i64 d = 0; d < f.query.size(1); ++d)
      for (i64 c = 0; c < C; ++c)
        total += f.query.at({b, d}) * (general ? f.parameter("W").at({d, c}) : d == c) * f.values.at({b, s, c});
    return total;
  }
  const auto layer = [&](const std::string& name, const Tensor& x) {
    return product(f.parameter(name + ".weight"), f.parameter(name + ".bias"), x);
  };
  const Tensor h = f.query.select(0, b), x = f.values.select(0, b).select(0, s);
  const bool sdp = kind == AttentionKind::sdp;
  const Values q = layer(sdp ? "W_q" : "Wa", h), k = layer(sdp ? "W_k" : "Ua", x);
  double total = sdp ? 0 : f.parameter("Va.bias").at({0});
  for (i64 i = 0; i < K; ++i) {
    const auto at = static_cast<std::size_t>(i);
    total += sdp ? q[at] * k[at] / std::sqrt(static_cast<double>(K))
                 : f.parameter("Va.weight").at({0, i}) * std::tanh(q[at] + k[at]);
  }
  return total;
}

const std::vector<AttentionKind> all_kinds{AttentionKind::mean, AttentionKind::sdp, AttentionKind::bahdanau,
                                           AttentionKind::luong_dot, AttentionKind::luong_general};

}  // namespace

TEST_CASE("kinds and their names") {
  CHECK(attention_kind("none") == AttentionKind::none);
  CHECK(attention_kind("luong_dot") == AttentionKind::luong_dot);
  for (AttentionKind kind : all_kinds) CHECK(attention_kind(name_of(kind)) == kind);
  for (const char* name : {"", "Sdp", "luong", "sdp "}) CHECK(!attention_kind(name));
  Root root;
  CHECK(make_attention(AttentionKind::none, root, "attention", D, C, K) == nullptr);
  CHECK(root.parameters().empty());
}

TEST_CASE("parameters are PyTorch's by name, shape and order") {
  using Expected = std::vector<std::pair<std::string, Dims>>;
  const std::vector<Expected> expected{{},
                                       {{"W_k.weight", {K, C}}, {"W_k.bias", {K}}, {"W_q.weight", {K, D}}, {"W_q.bias", {K}}},
                                       {{"Wa.weight", {K, D}},
                                        {"Wa.bias", {K}},
                                        {"Ua.weight", {K, C}},
                                        {"Ua.bias", {K}},
                                        {"Va.weight", {1, K}},
                                        {"Va.bias", {1}}},
                                       {},
                                       {{"W", {D, C}}}};
  for (std::size_t i = 0; i < all_kinds.size(); ++i) {
    Fixture f(all_kinds[i]);
    REQUIRE(f.block.parameters().size() == expected[i].size());
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      CHECK(f.block.parameters()[k]->name == "attention." + expected[i][k].first);
      CHECK(f.block.parameters()[k]->value.shape() == expected[i][k].second);
    }
  }
}

TEST_CASE("luong_general starts within 1 / sqrt(C); luong_dot needs equal widths and says so") {
  Root root;
  const auto general = make_attention(AttentionKind::luong_general, root, "attention", D, C, K);
  Generator generator(1);
  ParameterBlock block(root, DType::f64, generator);
  for (const double w : block.parameters()[0]->value.to_vector<double>()) CHECK(std::fabs(w) <= 1 / std::sqrt(6.0));
  CHECK(message_of([&] { make_attention(AttentionKind::luong_dot, root, "attention", D, C, K); }) ==
        "[luong_dot] the query's width 5 and the values' width 6 differ: luong_general takes both");
}

TEST_CASE("weights and context are the equations', exactly 0 on padding; without a mask every position counts") {
  for (AttentionKind kind : all_kinds)
    for (const std::vector<i64>& lengths : {std::vector<i64>{4, 2, 1}, std::vector<i64>{1, 4, 3}, std::vector<i64>{}}) {
      const std::string name = name_of(kind);
      CAPTURE(name);
      Fixture f(kind);
      Tape tape;
      const AttentionMemory memory = f.attention->prepare(tape.leaf(f.values), lengths.empty() ? Tensor() : mask_of(lengths));
      const AttentionOutput out = (*f.attention)(tape.leaf(f.query), memory);
      REQUIRE(out.weights.shape() == Dims{B, S});
      REQUIRE(out.context.shape() == Dims{B, C});
      for (i64 b = 0; b < B; ++b) {
        const i64 length = lengths.empty() ? S : lengths[static_cast<std::size_t>(b)];
        double sum = 0, total = 0;
        for (i64 s = 0; s < length; ++s) sum += std::exp(score(f, kind, b, s));
        Values context(C, 0);
        for (i64 s = 0; s < S; ++s) {
          const double weight = out.weights.value().at({b, s});
          if (s >= length) {
            CHECK(weight == 0);
            continue;
          }
          const double expected = std::exp(score(f, kind, b, s)) / sum;
          CHECK(weight == doctest::Approx(expected).epsilon(1e-13));
          if (kind == AttentionKind::mean) CHECK(weight == doctest::Approx(1 / static_cast<double>(length)).epsilon(1e-15));
          total += weight;
          for (i64 c = 0; c < C; ++c) context[static_cast<std::size_t>(c)] += expected * f.values.at({b, s, c});
        }
        CHECK(total == doctest::Approx(1).epsilon(1e-15));
        for (i64 c = 0; c < C; ++c)
          CHECK(out.context.value().at({b, c}) == doctest::Approx(context[static_cast<std::size_t>(c)]).epsilon(1e-13));
      }
    }
}

TEST_CASE("biases that softmax does not see get the gradient 0, exactly; all others get one") {
  for (AttentionKind kind : {AttentionKind::sdp, AttentionKind::bahdanau})
    for (bool masked : {true, false}) {
      Fixture f(kind);
      Tape tape;
      const AttentionMemory memory = f.attention->prepare(tape.leaf(f.values), masked ? mask_of({4, 2, 3}) : Tensor());
      const AttentionOutput out = (*f.attention)(tape.leaf(f.query), memory);
      tape.backward(sum(out.context * tape.constant(randn({B, C}, DType::f64, f.generator))));
      f.block.gradients();
      for (const Parameter* parameter : f.block.parameters()) {
        const std::string name = parameter->name;
        CAPTURE(name);
        const bool unseen = name == "attention.W_k.bias" || name == "attention.Va.bias";
        for (double g : parameter->grad.to_vector<double>()) CHECK((g == 0) == unseen);
      }
    }
}

TEST_CASE("padding gets no gradient") {
  for (AttentionKind kind : all_kinds) {
    Fixture f(kind);
    Tape tape;
    const Var values = tape.leaf(f.values);
    const AttentionMemory memory = f.attention->prepare(values, mask_of({4, 2, 1}));
    tape.backward(sum((*f.attention)(tape.leaf(f.query), memory).context));
    for (i64 b = 0; b < B; ++b)
      for (i64 s = 0; s < S; ++s)
        for (double g : values.grad().select(0, b).select(0, s).to_vector<double>())
          CHECK((g == 0) == (s >= std::vector<i64>{4, 2, 1}[static_cast<std::size_t>(b)]));
  }
}

TEST_CASE("one real position takes the whole weight, whatever its score") {
  for (AttentionKind kind : all_kinds) {
    Fixture f(kind);
    f.query.fill(1e6);
    Tape tape;
    const AttentionMemory memory = f.attention->prepare(tape.leaf(f.values), mask_of({1, 1, 1}));
    const AttentionOutput out = (*f.attention)(tape.leaf(f.query), memory);
    for (i64 b = 0; b < B; ++b) {
      CHECK(out.weights.value().select(0, b).to_vector<double>() == Values{1, 0, 0, 0});
      CHECK(out.context.value().select(0, b).to_vector<double>() == f.values.select(0, b).select(0, 0).to_vector<double>());
    }
  }
}

TEST_CASE("a mask may be a view and have gaps") {
  Fixture f(AttentionKind::sdp);
  const std::vector<bool> real{false, true, false, true, true, true, false, false, true, true, false, true};
  const Tensor mask = Tensor::from(real, {B, S});
  const Tensor columns =
      Tensor::from(std::vector<bool>{false, true, true, true, true, true, false, false, false, true, false, true}, {S, B});
  Tape tape;
  const Var values = tape.leaf(f.values), query = tape.leaf(f.query);
  const AttentionOutput plain = (*f.attention)(query, f.attention->prepare(values, mask));
  const AttentionOutput viewed = (*f.attention)(query, f.attention->prepare(values, columns.transpose(0, 1)));
  CHECK(columns.transpose(0, 1).to_vector<bool>() == real);
  CHECK(plain.weights.value().to_vector<double>() == viewed.weights.value().to_vector<double>());
  const Values weights = plain.weights.value().to_vector<double>();
  for (std::size_t i = 0; i < real.size(); ++i) CHECK((weights[i] > 0) == real[i]);
}

TEST_CASE("wrong masks are refused by row and shape") {
  for (AttentionKind kind : all_kinds) {
    Fixture f(kind);
    Tape tape;
    const auto refusal = [&](const Tensor& mask) {
      return message_of([&] { f.attention->prepare(tape.leaf(f.values), mask); });
    };
    CHECK(refusal(ones({B, S})) == "[attention] the mask should be bool (3, 4), not f32 (3, 4)");
    CHECK(refusal(Tensor::from<i64>(std::vector<i64>(12, 1), {B, S})) ==
          "[attention] the mask should be bool (3, 4), not i64 (3, 4)");
    CHECK(refusal(mask_of({4, 2})) == "[attention] the mask should be bool (3, 4), not bool (2, 4)");
    CHECK(refusal(mask_of({4, 2, 1}).transpose(0, 1)) == "[attention] the mask should be bool (3, 4), not bool (4, 3)");
    CHECK(refusal(mask_of({4, 2, 1}).unsqueeze(1)) == "[attention] the mask should be bool (3, 4), not bool (3, 1, 4)");
    CHECK(refusal(mask_of({4, 0, 0})) == "[attention] row 1 of the mask (3, 4) has no real token");
    CHECK(refusal(mask_of({4, 2, 0})) == "[attention] row 2 of the mask (3, 4) has no real token");
  }
}
