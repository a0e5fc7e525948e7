// Attention of many queries at once, and multi-head attention with PyTorch's parameters (Vaswani and others, "Attention is all
// you need", 2017, sections 3.2.1 and 3.2.2). Shapes: B batch, T queries, S keys, E width, N heads. See module.h for threads.
//
// Masks are bool and true means "a real position, look at it", as everywhere in this library. PyTorch's key_padding_mask and
// Boolean attn_mask mean the opposite: true there is "leave it out". Causal: query t looks at keys 0 ... t, whatever S is.
#pragma once

#include <memory>

#include "nn/layers.h"

namespace seqgrad::nn {

struct ScaledDotProductOutput {
  Var output;   // (B, T, V)
  Var weights;  // (B, T, S)
};

// weights = softmax(query key^T / sqrt(K)) over the positions that mask and causal leave, output = weights value.
// query (B,T,K), key (B,S,K), value (B,S,V); mask (B,S) for all queries of a row, (B,T,S) for each, or undefined.
// A query that no position is left to has zero weights and a zero output, and its gradients are zero.
ScaledDotProductOutput scaled_dot_product(const Var& query, const Var& key, const Var& value, const Tensor& mask = {},
                                          bool causal = false);

struct MultiHeadOutput {
  Var output;   // (B, T, E)
  Var weights;  // (B, N, T, S), those of each head, before dropout
};

// output = concat(head_1 ... head_N) out_proj.weight^T + out_proj.bias, head_n = scaled_dot_product of the n-th E / N columns
// of the projected query, key and value. Parameters as in nn.MultiheadAttention: in_proj_weight (3E, E), rows for query, key
// and value below each other; in_proj_bias (3E); out_proj.weight (E, E); out_proj.bias (E).
class MultiHeadAttention : public Module {
 public:
  // Error: heads that do not divide the width. Dropout acts on the weights.
  MultiHeadAttention(Module& parent, const std::string& name, i64 width, i64 heads, double dropout = 0);

  // query (B,T,E), key and value (B,S,E), mask bool (B,S) or undefined. Error: a row of the mask without a real position.
  MultiHeadOutput operator()(const Var& query, const Var& key, const Var& value, const Tensor& mask, bool causal,
                             Mode& mode) const;

  i64 heads() const { return heads_; }

 private:
  struct OutProjection : Module {
    OutProjection(Module& parent, i64 width);
    Parameter &weight, &bias;
  };

  Var project(const Var& x, i64 part) const;  // (B, L, E) -> (B N, L, E / N)

  i64 width_, heads_;
  Dropout dropout_;
  Parameter& in_proj_weight_;
  Parameter& in_proj_bias_;
  OutProjection out_proj_;
};

}  // namespace seqgrad::nn
