#include "nn/attention.h"

#include <cmath>

#include "autograd/cases.h"

namespace seqgrad::nn {
namespace {

void check_mask(const Tensor& mask, i64 batch, i64 length) {
  if (!mask.defined()) return;
  if (mask.dtype() != DType::boolean || !(mask.shape() == Dims{batch, length}))
    throw_error("[attention] the mask should be bool ({}, {}), not {} {}", batch, length, seqgrad::name_of(mask.dtype()),
                mask.shape());
  const std::vector<bool> real = mask.to_vector<bool>();
  for (i64 b = 0; b < batch; ++b) {
    bool any = false;
    for (i64 s = 0; s < length; ++s) any |= real[static_cast<std::size_t>(b * length + s)];
    if (!any) throw_error("[attention] row {} of the mask ({}, {}) has no real token", b, batch, length);
  }
}

Var weights_of(const Var& scores, const Tensor& mask) {
  return mask.defined() ? masked_softmax(scores, mask) : softmax(scores);
}

// (B, S) and (B, S, C) -> (B, C)
Var weighted_sum(const Var& weights, const Var& values) { return select(matmul(unsqueeze(weights, 1), values), 1, 0); }

// (B, K) and (B, S, K) -> (B, S)
Var dot(const Var& query, const Var& keys) { return select(matmul(unsqueeze(query, 1), transpose(keys)), 1, 0); }

class Mean : public Attention {
 public:
  using Attention::Attention;
  AttentionOutput operator()(const Var&, const AttentionMemory& memory) const override {
    return {memory.context, memory.weights};
  }

 protected:
  Var keys(const Var&) const override { return {}; }
  Var scores(const Var&, const AttentionMemory& memory) const override {
    const Tensor& v = memory.values.value();
    return memory.values.tape().constant(zeros({v.size(0), v.size(1)}, v.dtype(), v.device()));
  }
  void complete(AttentionMemory& memory) const override {
    memory.weights = weights_of(scores({}, memory), memory.mask);
    memory.context = weighted_sum(memory.weights, memory.values);
  }
};

class ScaledDotProduct : public Attention {
 public:
  ScaledDotProduct(Module& parent, const std::string& name, i64 query, i64 value, i64 width)
      : Attention(parent, name), W_k(*this, "W_k", value, width), W_q(*this, "W_q", query, width), width_(width) {}

 protected:
  // W_k's bias b would add the same q . b to all scores of a row, which softmax does not see. So it is left out: its gradient
  // is then the zero that it is in exact arithmetic, and not rounding noise that Adam would scale up to whole steps.
  Var keys(const Var& values) const override { return linear(values, values.tape().parameter(W_k.weight)); }
  Var scores(const Var& query, const AttentionMemory& memory) const override {
    return dot(W_q(query), memory.keys) / std::sqrt(static_cast<double>(width_));
  }

 private:
  Linear W_k, W_q;
  i64 width_;
};

class Bahdanau : public Attention {
 public:
  Bahdanau(Module& parent, const std::string& name, i64 query, i64 value, i64 width)
      : Attention(parent, name), Wa(*this, "Wa", query, width), Ua(*this, "Ua", value, width), Va(*this, "Va", width, 1) {}

 protected:
  Var keys(const Var& values) const override { return Ua(values); }
  // Va's bias adds the same to all scores, as above for W_k's.
  Var scores(const Var& query, const AttentionMemory& memory) const override {
    Tape& tape = query.tape();
    return additive_scores(Wa(query), memory.keys, select(tape.parameter(Va.weight), 0, 0));
  }

 private:
  Linear Wa, Ua, Va;
};

// Luong, Pham, Manning 2015, "Effective approaches to attention-based neural machine translation", the scores of section 3.1.
class LuongDot : public Attention {
 public:
  LuongDot(Module& parent, const std::string& name, i64 query, i64 value) : Attention(parent, name) {
    if (query != value)
      throw_error("[luong_dot] the query's width {} and the values' width {} differ: luong_general takes both", query, value);
  }

 protected:
  Var keys(const Var& values) const override { return values; }
  Var scores(const Var& query, const AttentionMemory& memory) const override { return dot(query, memory.keys); }
};

class LuongGeneral : public Attention {
 public:
  LuongGeneral(Module& parent, const std::string& name, i64 query, i64 value)
      : Attention(parent, name),
        W_(add_parameter("W", {query, value}, uniform_within(1 / std::sqrt(static_cast<double>(value))))) {}

 protected:
  // W x_i for all positions at once: one large product instead of one small h W a step.
  Var keys(const Var& values) const override { return linear(values, values.tape().parameter(W_)); }
  Var scores(const Var& query, const AttentionMemory& memory) const override { return dot(query, memory.keys); }

 private:
  Parameter& W_;
};

struct NamedKind {
  const char* name;
  AttentionKind kind;
};
constexpr NamedKind kinds[] = {{"none", AttentionKind::none},
                               {"mean", AttentionKind::mean},
                               {"sdp", AttentionKind::sdp},
                               {"bahdanau", AttentionKind::bahdanau},
                               {"luong_dot", AttentionKind::luong_dot},
                               {"luong_general", AttentionKind::luong_general}};

}  // namespace

AttentionMemory Attention::prepare(const Var& values, const Tensor& mask) const {
  check_mask(mask, values.size(0), values.size(1));
  AttentionMemory memory{values, keys(values), mask.to(values.value().device()), {}, {}};
  complete(memory);
  return memory;
}

AttentionOutput Attention::operator()(const Var& query, const AttentionMemory& memory) const {
  const Var weights = weights_of(scores(query, memory), memory.mask);
  return {weighted_sum(weights, memory.values), weights};
}

std::optional<AttentionKind> attention_kind(const std::string& name) {
  for (const NamedKind& one : kinds)
    if (name == one.name) return one.kind;
  return std::nullopt;
}

const char* name_of(AttentionKind kind) {
  for (const NamedKind& one : kinds)
    if (kind == one.kind) return one.name;
  return "?";
}

std::unique_ptr<Attention> make_attention(AttentionKind kind, Module& parent, const std::string& name, i64 query, i64 value,
                                          i64 width) {
  switch (kind) {
    case AttentionKind::none:
      return nullptr;
    case AttentionKind::mean:
      return std::make_unique<Mean>(parent, name);
    case AttentionKind::sdp:
      return std::make_unique<ScaledDotProduct>(parent, name, query, value, width);
    case AttentionKind::bahdanau:
      return std::make_unique<Bahdanau>(parent, name, query, value, width);
    case AttentionKind::luong_dot:
      return std::make_unique<LuongDot>(parent, name, query, value);
    case AttentionKind::luong_general:
      return std::make_unique<LuongGeneral>(parent, name, query, value);
  }
  return nullptr;
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_attention) {
  struct Owned : nn::Module {
    Owned(nn::AttentionKind kind, i64 query)
        : attention(make_attention(kind, *this, "attention", query, 4, 2)), block(*this, DType::f64, generator) {}
    std::unique_ptr<nn::Attention> attention;
    Generator generator{5};
    nn::ParameterBlock block;
  };
  const Tensor padding = Tensor::from<bool>({true, true, false, false, true, false}, {2, 3});
  for (const nn::NamedKind& one : nn::kinds) {
    if (one.kind == nn::AttentionKind::none) continue;
    const i64 width = one.kind == nn::AttentionKind::luong_dot ? 4 : 3;
    const bool equal_weights = one.kind == nn::AttentionKind::mean;  // which have no gradient
    const auto owned = std::make_shared<Owned>(one.kind, width);
    // Two steps on one memory, as a decoder takes them.
    const auto add = [&](const std::string& name, const Tensor& mask, i64 batch, i64 length) {
      const auto f = [=](Var query, Var values) {
        const nn::AttentionMemory memory = owned->attention->prepare(values, mask);
        std::vector<Var> outputs;
        for (const Var& q : {query, tanh(query)}) {
          const nn::AttentionOutput step = (*owned->attention)(q, memory);
          outputs.push_back(step.context);
          if (!equal_weights) outputs.push_back(step.weights);
        }
        return outputs;
      };
      cases.add(name, f, {cases.normal({batch, width}), cases.normal({batch, length, 4})}, {"query", "values"})
          .parameters_of(owned);
    };
    add(fmt::format("Attention/{}", one.name), padding, 2, 3);
    add(fmt::format("Attention/{}, one position", one.name), {}, 1, 1);
  }
}

}  // namespace seqgrad
