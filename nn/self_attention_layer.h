// One layer of a Transformer's encoder: a sequence that looks at itself, where a recurrent layer would read it step by step.
// It takes the batches and masks that the recurrent layers' encoder takes. See module.h for threads.
#pragma once

#include "nn/layer_norm.h"
#include "nn/multi_head_attention.h"

namespace seqgrad::nn {

struct SelfAttentionOptions {
  i64 width = 0;            // E
  i64 heads = 1;            // N, which divides E
  i64 feed_forward = 0;     // F, the width between linear1 and linear2; 0: 4 E
  double dropout = 0;       // on the attention's weights, between the two linears, and on what each half adds
  bool norm_first = false;  // where the norms stand, below
};

// Parameters as in nn.TransformerEncoderLayer: self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*. With
// attend(x) = self_attn(x, x, x) and forward(x) = linear2(relu(linear1(x))), dropout aside:
//   after (as PyTorch's default):  h = norm1(x + attend(x)),        y = norm2(h + forward(h))
//   norm_first:                    h = x + attend(norm1(x)),        y = h + forward(norm2(h))
// The layer knows no order of the positions but the causal one: what is to tell them apart must be in x.
class SelfAttentionLayer : public Module {
 public:
  SelfAttentionLayer(Module& parent, const std::string& name, const SelfAttentionOptions& options);

  // x (B,T,E), mask bool (B,T), true = real, or undefined -> output (B,T,E), weights (B,N,T,T). Outputs at padding are what
  // padding sees; nothing real depends on them.
  MultiHeadOutput operator()(const Var& x, const Tensor& mask, bool causal, Mode& mode) const;

 private:
  bool norm_first_;
  MultiHeadAttention self_attn_;
  Linear linear1_, linear2_;
  LayerNorm norm1_, norm2_;
  Dropout dropout_;
};

}  // namespace seqgrad::nn
