// Attention of one query per row over encoded positions: scores, weights = softmax over the real positions, context = weights
// times values. The kinds and their parameters are listed at make_attention. See module.h for threads.
#pragma once

#include <memory>
#include <optional>

#include "nn/layers.h"

namespace seqgrad::nn {

// What an attention needs of the source, computed once for all steps.
struct AttentionMemory {
  Var values;   // (B, S, C)
  Var keys;     // (B, S, K); undefined where scores do not come from keys
  Tensor mask;  // bool (B, S), true = real; undefined: every position counts
  Var weights;  // mean: (B, S), the same at each step
  Var context;  // mean: (B, C)
};

struct AttentionOutput {
  Var context;  // (B, C)
  Var weights;  // (B, S)
};

class Attention : public Module {
 public:
  using Module::Module;
  // values (B, S, C). Errors: a mask that is not bool (B, S), naming both shapes; a row without a real position, naming it.
  AttentionMemory prepare(const Var& values, const Tensor& mask) const;
  // query (B, D): the decoder's state before the step
  virtual AttentionOutput operator()(const Var& query, const AttentionMemory& memory) const;

 protected:
  virtual Var keys(const Var& values) const = 0;                                  // (B, S, K)
  virtual Var scores(const Var& query, const AttentionMemory& memory) const = 0;  // (B, S)
  virtual void complete(AttentionMemory&) const {}
};

enum class AttentionKind { none, mean, sdp, bahdanau, luong_dot, luong_general };
std::optional<AttentionKind> attention_kind(const std::string& name);
const char* name_of(AttentionKind kind);

// D query width, C value width, K attention width:
//   mean            equal weight on every real position
//   sdp             (W_q h) . (W_k x_i) / sqrt(K)       W_k (K, C), W_q (K, D), each with a bias
//   bahdanau        Va tanh(Wa h + Ua x_i)              Wa (K, D), Ua (K, C), Va (1, K), each with a bias
//   luong_dot       h . x_i                             none; Error unless D = C
//   luong_general   h W x_i                             W (D, C), the parameter itself, without a bias
// none: a null pointer.
std::unique_ptr<Attention> make_attention(AttentionKind kind, Module& parent, const std::string& name, i64 query, i64 value,
                                          i64 width);

}  // namespace seqgrad::nn
