// Attention of many queries against its equations, written as plain loops in f64.
#include "nn/multi_head_attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/cases.h"
#include "nn/recurrent.h"
#include "nn/self_attention_layer.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor normal(const Dims& shape, u64 seed = 4) {
  Generator generator(seed);
  return randn(shape, DType::f64, generator);
}

double worst_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const double difference = std::fabs(x[i] - y[i]); !(difference <= worst)) worst = difference;
  return worst;
}

// weights_ts = exp(q_t k_s / sqrt(K)) / sum over the seen s', output_t = sum_s weights_ts v_s. seen(b, t, s) decides.
template <class Seen>
std::pair<Tensor, Tensor> plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Seen& seen) {
  const i64 B = q.size(0), T = q.size(1), S = k.size(1), K = q.size(2), V = v.size(2);
  const Tensor output = zeros({B, T, V}, DType::f64), weights = zeros({B, T, S}, DType::f64);
  double *o = output.mutable_data<double>(), *w = weights.mutable_data<double>();
  for (i64 b = 0; b < B; ++b)
    for (i64 t = 0; t < T; ++t) {
      double total = 0;
      for (i64 s = 0; s < S; ++s) {
        double score = 0;
        for (i64 i = 0; i < K; ++i) score += q.at({b, t, i}) * k.at({b, s, i});
        if (seen(b, t, s)) total += w[(b * T + t) * S + s] = std::exp(score / std::sqrt(static_cast<double>(K)));
      }
      for (i64 s = 0; s < S && total > 0; ++s) {
        w[(b * T + t) * S + s] /= total;
        for (i64 i = 0; i < V; ++i) o[(b * T + t) * V + i] += w[(b * T + t) * S + s] * v.at({b, s, i});
      }
    }
  return {output, weights};
}

// x (B, L, E) times rows [begin, end) of weight, plus bias.
Tensor plain_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, i64 begin, i64 end) {
  const Tensor y = zeros({x.size(0), x.size(1), end - begin}, DType::f64);
  double* p = y.mutable_data<double>();
  for (i64 b = 0; b < x.size(0); ++b)
    for (i64 l = 0; l < x.size(1); ++l)
      for (i64 o = begin; o < end; ++o, ++p) {
        *p = bias.at({o});
        for (i64 i = 0; i < x.size(2); ++i) *p += weight.at({o, i}) * x.at({b, l, i});
      }
  return y;
}

Tensor lengths_mask(const std::vector<i64>& lengths, i64 columns) {
  const Tensor mask({static_cast<i64>(lengths.size()), columns}, DType::boolean);
  bool* p = mask.mutable_data<bool>();
  for (const i64 length : lengths)
    for (i64 s = 0; s < columns; ++s) *p++ = s < length;
  return mask;
}

struct Setting {
  i64 batch, queries, keys, width, heads;
  std::vector<i64> lengths;  // empty: no mask
  bool causal;
};

const std::vector<Setting> settings{{2, 3, 5, 6, 2, {}, false},       {2, 3, 5, 6, 3, {5, 2}, false},
                                    {3, 4, 4, 8, 4, {4, 1, 3}, true}, {2, 5, 3, 4, 1, {}, true},
                                    {1, 4, 4, 4, 2, {3}, true},       {1, 1, 1, 2, 1, {1}, true},
                                    {1, 1, 7, 6, 6, {}, false},       {4, 2, 1, 3, 3, {}, false},
                                    {2, 19, 17, 34, 2, {17, 9}, true}};  // wider than a vector register

struct Attending : nn::Module {
  Attending(i64 width, i64 heads, double dropout = 0, DType dtype = DType::f64)
      : attention(*this, "self_attn", width, heads, dropout), generator(9), block(*this, dtype, generator) {
    for (Parameter* p : parameters())  // biases, too, away from zero
      if (p->value.dim() == 1) p->value.copy_from(rand(p->value.shape(), -1, 1, dtype, generator));
  }
  nn::MultiHeadAttention attention;
  Generator generator;
  nn::ParameterBlock block;
};

nn::Mode evaluation = nn::Mode::evaluation();

}  // namespace

TEST_CASE("scaled dot-product attention is its equation") {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    CAPTURE(i);
    const Setting& s = settings[i];
    const Tensor q = normal({s.batch, s.queries, s.width}), k = normal({s.batch, s.keys, s.width}, 5);
    const Tensor v = normal({s.batch, s.keys, s.width + 1}, 6);
    const Tensor mask = s.lengths.empty() ? Tensor() : lengths_mask(s.lengths, s.keys);
    const auto seen = [&](i64 b, i64 t, i64 key) {
      return (s.lengths.empty() || key < s.lengths[static_cast<std::size_t>(b)]) && !(s.causal && key > t);
    };
    Tape tape;
    const auto out = nn::scaled_dot_product(tape.leaf(q), tape.leaf(k), tape.leaf(v), mask, s.causal);
    const auto [output, weights] = plain_attention(q, k, v, seen);
    CHECK(worst_difference(out.output.value(), output) <= 1e-12);
    CHECK(worst_difference(out.weights.value(), weights) <= 1e-12);
    for (i64 b = 0; b < s.batch; ++b)
      for (i64 t = 0; t < s.queries; ++t)
        for (i64 key = 0; key < s.keys; ++key)
          if (!seen(b, t, key)) CHECK(out.weights.value().at({b, t, key}) == 0);
  }
}

TEST_CASE("a mask for each query, and a query that sees nothing") {
  const Tensor q = normal({1, 3, 2}), k = normal({1, 3, 2}, 5), v = normal({1, 3, 2}, 6);
  const Tensor mask = Tensor::from<bool>({true, false, true, false, false, false, false, true, true}, {1, 3, 3});
  Tape tape;
  const Var query = tape.leaf(q), key = tape.leaf(k), value = tape.leaf(v);
  const auto out = nn::scaled_dot_product(query, key, value, mask);
  const auto [output, weights] = plain_attention(q, k, v, [&](i64, i64 t, i64 s) { return mask.data<bool>()[3 * t + s]; });
  CHECK(worst_difference(out.output.value(), output) <= 1e-12);
  CHECK(worst_difference(out.weights.value(), weights) <= 1e-12);
  tape.backward(sum(out.output * out.output) + sum(out.weights * out.weights));
  for (i64 i = 0; i < 2; ++i) CHECK(query.grad().at({0, 1, i}) == 0);
  for (const Var& x : {query, key, value})
    for (const double g : x.grad().to_vector<double>()) CHECK(std::isfinite(g));
}

TEST_CASE("scores of a thousand give one-hot weights, not NaN") {
  Tape tape;
  const Tensor far = Tensor::from<double>({1e3, -1e3, 0}, {1, 3, 1});
  const auto out =
      nn::scaled_dot_product(tape.leaf(ones({1, 1, 1}, DType::f64)), tape.leaf(far), tape.leaf(far), lengths_mask({2}, 3));
  CHECK(out.weights.value().to_vector<double>() == std::vector<double>{1, 0, 0});
}

TEST_CASE("multi-head attention is its equation, head by head") {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    CAPTURE(i);
    const Setting& s = settings[i];
    const Tensor q = normal({s.batch, s.queries, s.width}), k = normal({s.batch, s.keys, s.width}, 5);
    const Tensor v = normal({s.batch, s.keys, s.width}, 6);
    const Tensor mask = s.lengths.empty() ? Tensor() : lengths_mask(s.lengths, s.keys);
    Attending model(s.width, s.heads);
    Tape tape;
    const auto out = model.attention(tape.leaf(q), tape.leaf(k), tape.leaf(v), mask, s.causal, evaluation);
    REQUIRE(out.weights.shape() == Dims{s.batch, s.heads, s.queries, s.keys});

    const auto p = model.parameters();
    const i64 E = s.width, head = E / s.heads;
    const Tensor queries = plain_linear(q, p[0]->value, p[1]->value, 0, E);
    const Tensor keys = plain_linear(k, p[0]->value, p[1]->value, E, 2 * E);
    const Tensor values = plain_linear(v, p[0]->value, p[1]->value, 2 * E, 3 * E);
    const Tensor joined = zeros({s.batch, s.queries, E}, DType::f64);
    for (i64 n = 0; n < s.heads; ++n) {
      const auto columns = [&](const Tensor& x) { return x.slice(2, n * head, (n + 1) * head); };
      const auto [output, weights] =
          plain_attention(columns(queries), columns(keys), columns(values), [&](i64 b, i64 t, i64 key) {
            return (s.lengths.empty() || key < s.lengths[static_cast<std::size_t>(b)]) && !(s.causal && key > t);
          });
      columns(joined).copy_from(output);
      CHECK(worst_difference(out.weights.value().select(1, n), weights) <= 1e-12);
    }
    CHECK(worst_difference(out.output.value(), plain_linear(joined, p[2]->value, p[3]->value, 0, E)) <= 1e-12);
  }
}

TEST_CASE("parameters have PyTorch's names, shapes and initial values") {
  struct Two : nn::Module {
    nn::MultiHeadAttention attention{*this, "self_attn", 8, 2};
    nn::SelfAttentionLayer layer{*this, "layers.0", {.width = 8, .heads = 2, .feed_forward = 12}};
    Generator generator{1};
    nn::ParameterBlock block{*this, DType::f64, generator};
  } two;
  std::string text;
  for (const Parameter* p : two.parameters()) text += fmt::format("{} {}\n", p->name, p->value.shape());
  CHECK(text ==
        "self_attn.in_proj_weight (24, 8)\nself_attn.in_proj_bias (24)\n"
        "self_attn.out_proj.weight (8, 8)\nself_attn.out_proj.bias (8)\n"
        "layers.0.self_attn.in_proj_weight (24, 8)\nlayers.0.self_attn.in_proj_bias (24)\n"
        "layers.0.self_attn.out_proj.weight (8, 8)\nlayers.0.self_attn.out_proj.bias (8)\n"
        "layers.0.linear1.weight (12, 8)\nlayers.0.linear1.bias (12)\n"
        "layers.0.linear2.weight (8, 12)\nlayers.0.linear2.bias (8)\n"
        "layers.0.norm1.weight (8)\nlayers.0.norm1.bias (8)\nlayers.0.norm2.weight (8)\nlayers.0.norm2.bias (8)\n");
  double largest = 0;
  for (const double w : two.parameters()[0]->value.to_vector<double>()) largest = std::max(largest, std::fabs(w));
  CHECK(largest <= std::sqrt(6.0 / 32));
  CHECK(largest > 0.9 * std::sqrt(6.0 / 32));
  for (const int bias : {1, 3})
    for (const double b : two.parameters()[static_cast<std::size_t>(bias)]->value.to_vector<double>()) CHECK(b == 0);
}

TEST_CASE("errors name what does not fit") {
  Attending model(4, 2);
  Tape tape;
  const Var x = tape.leaf(normal({2, 3, 4})), y = tape.leaf(normal({2, 5, 4})), narrow = tape.leaf(normal({2, 3, 2}));
  const auto attend = [&](const Var& q, const Var& k, const Var& v, const Tensor& mask) {
    return message_of([&] { model.attention(q, k, v, mask, false, evaluation); });
  };
  CHECK(attend(x, y, x, {}) ==
        "[multi_head_attention] query (2, 3, 4), key (2, 5, 4) and value (2, 3, 4) do not fit (B, T, 4), (B, S, 4) and (B, S, "
        "4)");
  CHECK(attend(x, x, narrow, {}) ==
        "[multi_head_attention] query (2, 3, 4), key (2, 3, 4) and value (2, 3, 2) do not fit (B, T, 4), (B, S, 4) and (B, S, "
        "4)");
  CHECK(attend(x, y, y, lengths_mask({3, 3}, 3)) == "[multi_head_attention] the mask should be bool (2, 5), not bool (2, 3)");
  CHECK(attend(x, y, y, lengths_mask({3, 0}, 5)) == "[multi_head_attention] row 1 of the mask (2, 5) has no real token");
  CHECK(message_of([&] {
          nn::scaled_dot_product(x, y, y, zeros({2, 5}, DType::i64));
        }) == "[scaled_dot_product] the mask should be bool (2, 5) or (2, 3, 5), not i64 (2, 5)");
  CHECK(
      message_of([&] { nn::scaled_dot_product(x, y, x); }) ==
      "[scaled_dot_product] query (2, 3, 4), key (2, 5, 4) and value (2, 3, 4) do not fit (B, T, K), (B, S, K) and (B, S, V)");
  CHECK(message_of([&] { Attending(4, 3); }) ==
        "[multi_head_attention] a width of 4 cannot be shared among 3 heads: the heads must divide it");
}

TEST_CASE("the keys' bias gets exactly no gradient, all other parameters get one") {
  Attending model(4, 2);
  Tape tape;
  const Var x = tape.leaf(normal({2, 3, 4}));
  tape.backward(sum(model.attention(x, x, x, {}, true, evaluation).output * x));
  for (const Parameter* p : model.parameters()) CHECK(p->has_grad);
  const std::vector<double> bias = model.parameters()[1]->grad.to_vector<double>();
  for (std::size_t i = 0; i < bias.size(); ++i) CHECK((bias[i] == 0) == (i >= 4 && i < 8));
}

TEST_CASE("padding and the future reach nothing") {
  struct Model : nn::Module {
    nn::SelfAttentionLayer layer{*this, "layer", {.width = 6, .heads = 3}};
    Generator generator{2};
    nn::ParameterBlock block{*this, DType::f64, generator};
  } model;
  const Tensor x = normal({2, 5, 6}), changed = x.clone();
  changed.select(0, 1).slice(0, 3, 5).fill(1e3);
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const Tensor mask = causal ? Tensor() : lengths_mask({5, 3}, 5);
    Tape tape;
    const Var one = tape.leaf(x);
    const auto a = model.layer(one, mask, causal, evaluation), b = model.layer(tape.leaf(changed), mask, causal, evaluation);
    CHECK(a.output.value().select(0, 0).to_vector<double>() == b.output.value().select(0, 0).to_vector<double>());
    CHECK(a.output.value().select(0, 1).slice(0, 0, 3).to_vector<double>() ==
          b.output.value().select(0, 1).slice(0, 0, 3).to_vector<double>());
    tape.backward(sum(slice(select(a.output, 0, 1), 0, 0, 3) * 2.0));
    for (const double g : one.grad().select(0, 1).slice(0, 3, 5).to_vector<double>()) CHECK(g == 0);
  }
}

TEST_CASE("the norms stand where the options say") {
  const Tensor data = normal({2, 3, 4});
  for (const bool first : {false, true}) {
    struct Model : nn::Module {
      explicit Model(bool norm_first)
          : layer(*this, "layer", {.width = 4, .heads = 2, .feed_forward = 7, .norm_first = norm_first}),
            block(*this, DType::f64, generator) {}
      Generator generator{2};
      nn::SelfAttentionLayer layer;
      nn::ParameterBlock block;
    } model(first);
    // The same from its parts: an attention and the operations, on the layer's parameters.
    Attending parts(4, 2);
    const auto p = model.parameters();
    for (std::size_t i = 0; i < 4; ++i) parts.parameters()[i]->value.copy_from(p[i]->value);
    Tape tape;
    const Var x = tape.leaf(data);
    const auto on = [&](std::size_t i) { return tape.parameter(*p[i]); };
    const auto norm1 = [&](const Var& h) { return layer_norm(h, on(8), on(9)); };
    const auto norm2 = [&](const Var& h) { return layer_norm(h, on(10), on(11)); };
    const auto attend = [&](const Var& h) { return parts.attention(h, h, h, {}, false, evaluation).output; };
    const auto forward = [&](const Var& h) { return linear(relu(linear(h, on(4), on(5))), on(6), on(7)); };
    Var expected;
    if (first) {
      const Var h = x + attend(norm1(x));
      expected = h + forward(norm2(h));
    } else {
      const Var h = norm1(x + attend(x));
      expected = norm2(h + forward(h));
    }
    CHECK(worst_difference(model.layer(x, {}, false, evaluation).output.value(), expected.value()) <= 1e-12);
  }
}

TEST_CASE("one batch passes from a recurrent layer to self-attention") {
  struct Model : nn::Module {
    nn::Embedding embedding{*this, "embedding", 9, 4, 0};
    nn::GRU gru{*this, "gru", 4, 2, 1, true};
    nn::SelfAttentionLayer layer{*this, "layer", {.width = 4, .heads = 2, .feed_forward = 5}};
    nn::Linear out{*this, "out", 4, 9};
    Generator generator{2};
    nn::ParameterBlock block{*this, DType::f32, generator};
  } model;
  const Tensor ids = Tensor::from<i64>({4, 5, 6, 3, 7, 3, 0, 0}, {2, 4}), lengths = Tensor::from<i64>({4, 2}, {2});
  const Tensor target = Tensor::from<i64>({5, 6, 3, 4, 3, 7, 0, 0}, {8});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    Tape tape;
    model.block.zero_grad();
    nn::Mode mode = nn::Mode::training_step(1, static_cast<u64>(step));
    const Var states = model.gru(model.embedding(tape, ids), lengths, mode).output;  // (B, S, 4)
    const Var seen = model.layer(states, lengths_mask({4, 2}, 4), false, mode).output;
    const Var loss = cross_entropy(reshape(model.out(seen), {8, 9}), target, {.ignore_index = 0});
    (step == 0 ? first : last) = loss.value().item();
    tape.backward(loss);
    for (const Parameter* p : model.block.parameters()) {
      CHECK(p->has_grad);
      Parameter moved = *p;
      const std::vector<float> g = p->grad.to_vector<float>();
      float* w = moved.value.mutable_data<float>();
      for (std::size_t i = 0; i < g.size(); ++i) w[i] -= 0.5F * g[i];
    }
  }
  CHECK(first > 1);
  CHECK(last < 0.1);
}

TEST_CASE("weights are those before dropout, and dropout is drawn anew from its step") {
  Attending model(4, 2, 0.5);
  Tape tape;
  const Var x = tape.leaf(normal({2, 3, 4}));
  const auto at_step = [&](u64 step) {
    nn::Mode mode = nn::Mode::training_step(1, step);
    return model.attention(x, x, x, {}, false, mode);
  };
  const auto plain = model.attention(x, x, x, {}, false, evaluation), dropped = at_step(1);
  CHECK(worst_difference(plain.weights.value(), dropped.weights.value()) == 0);
  CHECK(worst_difference(plain.output.value(), dropped.output.value()) > 1e-3);
  CHECK(worst_difference(at_step(1).output.value(), dropped.output.value()) == 0);
  CHECK(worst_difference(at_step(2).output.value(), dropped.output.value()) > 1e-3);
}

TEST_CASE("f32 attention is f64's within rounding") {
  Attending exact(6, 2), rounded(6, 2, 0, DType::f32);
  for (std::size_t i = 0; i < 4; ++i) rounded.parameters()[i]->value.copy_from(exact.parameters()[i]->value.to(DType::f32));
  const Tensor data = normal({3, 4, 6});
  Tape tape;
  const Var x = tape.leaf(data), y = tape.leaf(data.to(DType::f32));
  const Tensor mask = lengths_mask({4, 1, 3}, 4);
  const auto a = exact.attention(x, x, x, mask, true, evaluation), b = rounded.attention(y, y, y, mask, true, evaluation);
  CHECK(worst_difference(a.output.value(), b.output.value().to(DType::f64)) <= 1e-5);
}

TEST_CASE("the gradients of LayerNorm, attention and the self-attention layer are right") {
  Cases cases;
  add_nn_cases(cases);
  int checked = 0;
  for (const Case& one : cases.all()) {
    if (!one.name.starts_with("LayerNorm") && !one.name.starts_with("scaled_dot_product") &&
        !one.name.starts_with("MultiHeadAttention") && !one.name.starts_with("SelfAttentionLayer"))
      continue;
    CAPTURE(one.name);
    const GradcheckReport report = run(one);
    CAPTURE(to_string(report));
    CHECK(report.ok());
    ++checked;
  }
  CHECK(checked == 11);
}
