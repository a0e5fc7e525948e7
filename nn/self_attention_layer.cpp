#include "nn/self_attention_layer.h"

#include "autograd/cases.h"

namespace seqgrad::nn {
namespace {

i64 inner_width(const SelfAttentionOptions& options) { return options.feed_forward ? options.feed_forward : 4 * options.width; }

}  // namespace

SelfAttentionLayer::SelfAttentionLayer(Module& parent, const std::string& name, const SelfAttentionOptions& options)
    : Module(parent, name),
      norm_first_(options.norm_first),
      self_attn_(*this, "self_attn", options.width, options.heads, options.dropout),
      linear1_(*this, "linear1", options.width, inner_width(options)),
      linear2_(*this, "linear2", inner_width(options), options.width),
      norm1_(*this, "norm1", options.width),
      norm2_(*this, "norm2", options.width),
      dropout_(options.dropout) {}

MultiHeadOutput SelfAttentionLayer::operator()(const Var& x, const Tensor& mask, bool causal, Mode& mode) const {
  const auto forward = [&](const Var& h) { return dropout_(linear2_(dropout_(relu(linear1_(h)), mode)), mode); };
  const Var seen = norm_first_ ? norm1_(x) : x;
  const MultiHeadOutput look = self_attn_(seen, seen, seen, mask, causal, mode);
  const Var attended = x + dropout_(look.output, mode);
  if (norm_first_) return {attended + forward(norm2_(attended)), look.weights};
  const Var h = norm1_(attended);
  return {norm2_(h + forward(h)), look.weights};
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_self_attention_layer) {
  struct Owned : nn::Module {
    explicit Owned(const nn::SelfAttentionOptions& options)
        : layer(*this, "layer", options), generator(6), block(*this, DType::f64, generator) {
      // Every parameter away from its special initial value, and relu's arguments far from its kink: |linear1.weight x| is
      // less than 3 for a normalised x of width 4.
      for (Parameter* p : parameters()) {
        if (p->name.ends_with("norm1.weight") || p->name.ends_with("norm2.weight")) continue;
        if (p->value.dim() == 1) p->value.copy_from(rand(p->value.shape(), -0.3, 0.3, DType::f64, generator));
        if (p->name.ends_with("linear1.bias"))
          for (i64 i = 0; i < p->value.size(0); ++i) p->value.select(0, i).fill(i % 2 ? -3 : 3);
      }
    }
    nn::SelfAttentionLayer layer;
    Generator generator;
    nn::ParameterBlock block;
  };
  const Tensor padding = Tensor::from<bool>({true, true, false, true, true, true}, {2, 3});
  const auto add = [&](const std::string& name, const nn::SelfAttentionOptions& options, const Tensor& mask, bool causal) {
    const auto owned = std::make_shared<Owned>(options);
    const auto f = [=](Var x) {
      nn::Mode mode = nn::Mode::training_step(3, 1);
      return owned->layer(x, mask, causal, mode).output;
    };
    cases.add("SelfAttentionLayer" + name, f, {cases.normal({2, 3, 4})}, {"x"}).parameters_of(owned);
  };
  add("", {.width = 4, .heads = 2, .feed_forward = 5, .dropout = 0.2}, padding, false);
  add("/norm first, causal", {.width = 4, .heads = 1, .feed_forward = 5, .norm_first = true}, {}, true);
}

}  // namespace seqgrad
