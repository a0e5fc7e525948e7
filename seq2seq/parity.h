// Replays a recording of another framework: the same inputs and weights must give the same outputs, gradients and training
// steps.
//
// A recording is a safetensors file whose metadata entry `fixture` is JSON with `kind` and `config`:
//   ops        NAME/input/ARG, NAME/cotangent, NAME/expect/output, NAME/expect/grad/ARG for each NAME of `cases`
//   layer      param/*, input/ARG, input/key_padding_mask (bool, true = no token), cotangent/output, expect/output,
//              expect/grad/*; where the attention's weights are recorded cotangent/weights, expect/weights. `config` has
//              layer: LayerNorm (x), MultiheadAttention (query, and key and value where they differ from it) or
//              TransformerEncoderLayer (x), width, and as they apply eps, heads, feed_forward, norm_first, causal
//   recurrent  param/*, input/x, input/lengths, cotangent/*, expect/output, expect/h_n, expect/grad/*
//   seq2seq    param/*, input/src, input/src_lengths, input/tgt_in, input/tgt_out, expect/logits, loss, encoder_outputs,
//              attention_weights, grad/*, grad_norm, and after five steps of Adam losses, after5/*
// Agreement asked for, absolute or relative: f64 outputs and gradients 1e-10, weights after five steps 1e-7;
// f32 outputs 1e-5, gradients and what follows from them 1e-4.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace seqgrad::seq2seq {

struct ParityResult {
  std::string kind;            // of the recording
  i64 compared = 0;            // tensors
  double worst = 0;            // largest deviation as a share of its tolerance; NaN stays
  std::string worst_name;      // of the tensor where it stands
  double worst_deviation = 0;  // |ours - theirs| / max(1, |theirs|) there

  bool ok() const { return compared > 0 && worst <= 1; }
};

// Errors: a file that is no recording; a kind, case or setting that is not known here, by name.
ParityResult check_parity(const std::string& path, DType dtype);

}  // namespace seqgrad::seq2seq
