#include "nn/multi_head_attention.h"

#include <cmath>

#include "autograd/cases.h"

namespace seqgrad::nn {
namespace {

// The mask of a batch whose rows stand `heads` times below each other: undefined where every query sees every key, (B N, S)
// where all queries of a row see the same, (B N, T, S) otherwise.
Tensor combined_mask(const Tensor& mask, bool causal, i64 batch, i64 heads, i64 queries, i64 keys) {
  if (!mask.defined() && !causal) return {};
  const bool of_each_query = mask.defined() && mask.dim() == 3;
  const i64 rows = causal || of_each_query ? queries : 1;
  if (mask.defined() && heads == 1 && !causal) return mask;
  const Tensor given = mask.defined() ? mask.contiguous() : Tensor();
  const bool* real = given.defined() ? given.data<bool>() : nullptr;
  const Tensor all(rows == 1 && !causal ? Dims{batch * heads, keys} : Dims{batch * heads, rows, keys}, DType::boolean);
  bool* out = all.mutable_data<bool>();
  for (i64 b = 0; b < batch; ++b)
    for (i64 n = 0; n < heads; ++n)
      for (i64 t = 0; t < rows; ++t)
        for (i64 s = 0; s < keys; ++s)
          *out++ = (!real || real[(of_each_query ? b * queries + t : b) * keys + s]) && !(causal && s > t);
  return all;
}

// (B, T, K) and (B, S, K) -> (B, T, S)
Var weights_of(const Var& query, const Var& key, const Tensor& mask) {
  const Var scores = matmul(query / std::sqrt(static_cast<double>(query.size(2))), transpose(key));
  return mask.defined() ? masked_softmax(scores, mask) : softmax(scores);
}

void check_mask_type(const char* op, const Tensor& mask, const Dims& shared, const Dims& of_each_query) {
  if (!mask.defined()) return;
  if (mask.dtype() == DType::boolean && (mask.shape() == shared || mask.shape() == of_each_query)) return;
  throw_error("[{}] the mask should be bool {}{}, not {} {}", op, shared,
              of_each_query == shared ? "" : fmt::format(" or {}", of_each_query), name_of(mask.dtype()), mask.shape());
}

void check_rows(const Tensor& mask) {
  if (!mask.defined()) return;
  const std::vector<bool> real = mask.to_vector<bool>();
  const i64 batch = mask.size(0), keys = mask.size(1);
  for (i64 b = 0; b < batch; ++b) {
    bool any = false;
    for (i64 s = 0; s < keys; ++s) any |= real[static_cast<std::size_t>(b * keys + s)];
    if (!any) throw_error("[multi_head_attention] row {} of the mask {} has no real token", b, mask.shape());
  }
}

}  // namespace

ScaledDotProductOutput scaled_dot_product(const Var& query, const Var& key, const Var& value, const Tensor& mask, bool causal) {
  const auto fits = [&] {
    return query.dim() == 3 && key.dim() == 3 && value.dim() == 3 && query.size(0) == key.size(0) &&
           key.size(0) == value.size(0) && query.size(2) == key.size(2) && key.size(1) == value.size(1);
  };
  if (!fits())
    throw_error("[scaled_dot_product] query {}, key {} and value {} do not fit (B, T, K), (B, S, K) and (B, S, V)",
                query.shape(), key.shape(), value.shape());
  const i64 batch = query.size(0), queries = query.size(1), keys = key.size(1);
  check_mask_type("scaled_dot_product", mask, {batch, keys}, {batch, queries, keys});
  const Var weights = weights_of(query, key, combined_mask(mask, causal, batch, 1, queries, keys));
  return {matmul(weights, value), weights};
}

// PyTorch's initial values: in_proj_weight uniform within sqrt(6 / (3E + E)) (Glorot), all biases 0.
MultiHeadAttention::OutProjection::OutProjection(Module& parent, i64 width)
    : Module(parent, "out_proj"),
      weight(add_parameter("weight", {width, width}, uniform_within(1 / std::sqrt(static_cast<double>(width))))),
      bias(add_parameter("bias", {width}, [](const Tensor& x, Generator&) { x.fill(0); })) {}

MultiHeadAttention::MultiHeadAttention(Module& parent, const std::string& name, i64 width, i64 heads, double dropout)
    : Module(parent, name),
      width_(width),
      heads_(heads),
      dropout_(dropout),
      in_proj_weight_(
          add_parameter("in_proj_weight", {3 * width, width}, uniform_within(std::sqrt(1.5 / static_cast<double>(width))))),
      in_proj_bias_(add_parameter("in_proj_bias", {3 * width}, [](const Tensor& x, Generator&) { x.fill(0); })),
      out_proj_(*this, width) {
  if (heads < 1 || width % heads != 0)
    throw_error("[multi_head_attention] a width of {} cannot be shared among {} heads: the heads must divide it", width, heads);
}

Var MultiHeadAttention::project(const Var& x, i64 part) const {
  Tape& tape = x.tape();
  const auto third = [&](Parameter& p) { return slice(tape.parameter(p), 0, part * width_, (part + 1) * width_); };
  // The keys' bias b would add the same q . b to all scores of a query, which softmax does not see. So it is left out: its
  // gradient is then the zero that it is in exact arithmetic, and not rounding noise that Adam would scale up to whole steps.
  const bool keys = part == 1;
  const Var y = keys ? linear(x, third(in_proj_weight_)) : linear(x, third(in_proj_weight_), third(in_proj_bias_));
  const i64 batch = x.size(0), length = x.size(1), head = width_ / heads_;
  return reshape(transpose(reshape(y, {batch, length, heads_, head}), 1, 2), {batch * heads_, length, head});
}

MultiHeadOutput MultiHeadAttention::operator()(const Var& query, const Var& key, const Var& value, const Tensor& mask,
                                               bool causal, Mode& mode) const {
  const auto is_batch = [&](const Var& x, i64 length) {
    return x.dim() == 3 && x.shape() == Dims{query.size(0), length, width_};
  };
  if (query.dim() != 3 || key.dim() != 3 || !is_batch(query, query.size(1)) || !is_batch(key, key.size(1)) ||
      !is_batch(value, key.size(1)))
    throw_error("[multi_head_attention] query {}, key {} and value {} do not fit (B, T, {}), (B, S, {}) and (B, S, {})",
                query.shape(), key.shape(), value.shape(), width_, width_, width_);
  const i64 batch = query.size(0), queries = query.size(1), keys = key.size(1);
  check_mask_type("multi_head_attention", mask, {batch, keys}, {batch, keys});
  check_rows(mask);

  const Tensor of_heads = combined_mask(mask, causal, batch, heads_, queries, keys);
  const Var weights = weights_of(project(query, 0), project(key, 1), of_heads);  // (B N, T, S)
  const Var heads = matmul(dropout_(weights, mode), project(value, 2));          // (B N, T, E / N)
  const Var joined = reshape(transpose(reshape(heads, {batch, heads_, queries, width_ / heads_}), 1, 2), query.shape());
  Tape& tape = query.tape();
  return {linear(joined, tape.parameter(out_proj_.weight), tape.parameter(out_proj_.bias)),
          reshape(weights, {batch, heads_, queries, keys})};
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_multi_head_attention) {
  const Tensor padding = Tensor::from<bool>({true, true, false, true, true, true, true, false}, {2, 4});
  const Tensor empty_row = Tensor::from<bool>({false, true, true, false, false, false, true, false}, {2, 4});
  const Tensor empty_queries = Tensor::from<bool>({true, false, false, false, true, true, false, false,  //
                                                   true, false, true, false, false, false, false, true},
                                                  {2, 2, 4});
  // Both the output and the weights are used: outer losses may look at either.
  const auto add = [&](const std::string& name, const Tensor& mask, bool causal, i64 queries) {
    cases.add("scaled_dot_product" + name,
              [=](Var q, Var k, Var v) {
                const nn::ScaledDotProductOutput out = nn::scaled_dot_product(q, k, v, mask, causal);
                return std::vector{out.output, out.weights};
              },
              {cases.normal({2, queries, 3}), cases.normal({2, 4, 3}), cases.normal({2, 4, 2})}, {"query", "key", "value"});
  };
  add("", {}, false, 3);
  add("/padding", padding, false, 3);
  add("/causal", {}, true, 4);
  add("/causal, padding, row without a key at first", empty_row, true, 3);
  add("/mask of each query", empty_queries, false, 2);

  struct Owned : nn::Module {
    explicit Owned(i64 heads)
        : attention(*this, "attention", 4, heads, 0.3), generator(5), block(*this, DType::f64, generator) {}
    nn::MultiHeadAttention attention;
    Generator generator;
    nn::ParameterBlock block;
  };
  const auto add_heads = [&](const std::string& name, i64 heads, const Tensor& mask, bool causal, bool itself, bool training) {
    const auto owned = std::make_shared<Owned>(heads);
    const auto f = [=](const std::vector<Var>& x) {
      nn::Mode mode = training ? nn::Mode::training_step(3, 1) : nn::Mode::evaluation();
      const nn::MultiHeadOutput out = owned->attention(x[0], itself ? x[0] : x[1], itself ? x[0] : x[2], mask, causal, mode);
      return std::vector{out.output, out.weights};
    };
    std::vector<Tensor> inputs{cases.normal({2, itself ? 4 : 3, 4})};
    if (!itself) inputs.insert(inputs.end(), {cases.normal({2, 4, 4}), cases.normal({2, 4, 4})});
    cases.add("MultiHeadAttention" + name, f, inputs, {"query", "key", "value"}).parameters_of(owned);
  };
  add_heads("", 2, padding, false, false, false);
  add_heads("/one head, dropout", 1, padding, false, false, true);
  add_heads("/causal self-attention", 4, padding, true, true, false);
}

}  // namespace seqgrad
