// The operations on Vars. Each has its file in autograd/ops/ with the equation, the gradient and the cases that prove it.
// Names and meanings are PyTorch's where it has them. Shapes stand in comments; "..." is any number of leading dimensions.
// Errors name the operation and the shapes: "[matmul] inner dimensions differ: (32, 512) x (256, 64)".
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "kernels/elementwise.h"

namespace seqgrad {

// ---- elementwise: declared from the lists in kernels/elementwise.h ---------------------------------------------------
#define SEQGRAD_DECLARE_UNARY(functor, name) Var name(const Var& x);
#define SEQGRAD_DECLARE_BINARY(functor, name) Var name(const Var& a, const Var& b);  // shapes broadcast
SEQGRAD_UNARY_OPS(SEQGRAD_DECLARE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_DECLARE_BINARY)
#undef SEQGRAD_DECLARE_UNARY
#undef SEQGRAD_DECLARE_BINARY

Var affine(const Var& x, double scale, double shift);  // scale x + shift

inline Var operator+(const Var& a, const Var& b) { return add(a, b); }
inline Var operator-(const Var& a, const Var& b) { return sub(a, b); }
inline Var operator*(const Var& a, const Var& b) { return mul(a, b); }
inline Var operator/(const Var& a, const Var& b) { return div(a, b); }
inline Var operator+(const Var& x, double c) { return affine(x, 1, c); }
inline Var operator-(const Var& x, double c) { return affine(x, 1, -c); }
inline Var operator*(const Var& x, double c) { return affine(x, c, 0); }
inline Var operator/(const Var& x, double c) { return affine(x, 1 / c, 0); }
inline Var operator+(double c, const Var& x) { return affine(x, 1, c); }
inline Var operator-(double c, const Var& x) { return affine(x, -1, c); }
inline Var operator*(double c, const Var& x) { return affine(x, c, 0); }
inline Var operator-(const Var& x) { return affine(x, -1, 0); }

// ---- views: no copies, forward or backward ---------------------------------------------------------------------------
Var transpose(const Var& x, int a = -2, int b = -1);
Var slice(const Var& x, int dimension, i64 begin, i64 end);
Var select(const Var& x, int dimension, i64 index);
Var unsqueeze(const Var& x, int dimension);
Var reshape(const Var& x, const Dims& shape);  // one extent may be -1; copies only what strides cannot express
Var expand(const Var& x, const Dims& shape);   // its gradient is a sum

// ---- putting together ------------------------------------------------------------------------------------------------
Var cat(std::span<const Var> parts, int dimension);
Var stack(std::span<const Var> parts, int dimension);  // a new dimension

// ---- reductions ------------------------------------------------------------------------------------------------------
Var sum(const Var& x);
Var sum(const Var& x, int dimension, bool keepdim = false);
Var mean(const Var& x);
Var mean(const Var& x, int dimension, bool keepdim = false);
Var max(const Var& x, int dimension);  // the first of equals gets the gradient

// ---- products --------------------------------------------------------------------------------------------------------
Var matmul(const Var& a, const Var& b);  // (m,k) (k,n); (B,m,k) (B,k,n); (B,m,k) (k,n)
// x WT + bias, bias being a vector, one value for each row of a (rows,out) matrix, or absent
Var linear(const Var& x, const Var& weight, const Var& bias = {});  // (...,in) (out,in) (out)? -> (...,out)

// ---- softmax and losses ----------------------------------------------------------------------------------------------
Var softmax(const Var& x);      // over the last dimension
Var log_softmax(const Var& x);  // over the last dimension
// Over the positions where mask (bool, true = real) is true; exactly 0 elsewhere; a row without any is all zeros.
// x (B,S) with mask (B,S), or x (B,T,S) with mask (B,S): one mask for all T queries of a row.
Var masked_softmax(const Var& x, const Tensor& mask);

enum class Reduction { mean, sum };
struct CrossEntropyOptions {
  i64 ignore_index = -100;  // targets equal to it count neither in the loss nor in the mean
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};
Var cross_entropy(const Var& logits, const Tensor& target, const CrossEntropyOptions& options = {});  // (N,V), (N) i64
// cross_entropy(linear(x, weight, bias), target): the logits' memory becomes their gradient's, so that one matrix of
// (N,V) is stored and not three.
Var linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, const Tensor& target,
                         const CrossEntropyOptions& options = {});

// ---- layers' primitives ----------------------------------------------------------------------------------------------
Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps = 1e-5);  // over the last dimension
// weight (V,E), ids i64 (...) -> (...,E); row padding_idx gets no gradient (-1: every row does)
Var embedding(const Var& weight, const Tensor& ids, i64 padding_idx = -1);
// Each element is kept with probability 1 - p and scaled by 1 / (1 - p). (seed, stream) fix the mask.
Var dropout(const Var& x, double p, u64 seed, u64 stream);
// score[b,s] = sum_k v_k tanh(query[b,k] + keys[b,s,k]); query (B,K), keys (B,S,K), v (K) -> (B,S)
Var additive_scores(const Var& query, const Var& keys, const Var& v);

// One GRU step from gi = W_ih x + b_ih (B,3H), gh = W_hh h + b_hh (B,3H) and h (B,H) -> h' (B,H).
Var gru_gates(const Var& gi, const Var& gh, const Var& h);

// One LSTM step from a = W_ih x + b_ih + W_hh h + b_hh (B,4H) and c (B,H) -> h', c' (B,H).
std::pair<Var, Var> lstm_gates(const Var& a, const Var& c);

struct RecurrentWeights {
  Var weight_ih, weight_hh, bias_ih, bias_hh;  // (G,I), (G,H), (G), (G); G = 3H for a GRU, 4H for an LSTM, H for an RNN
};
struct RecurrentOutput {
  Var output;    // (B,S,H), 0 beyond each row's length
  Var h_n;       // (B,H), the state after each row's last real step
  Var c_n = {};  // (B,H), an LSTM's cell state then
};
// Recurrent networks over a whole padded sequence, one direction, fused: one input product for all steps, hand-derived
// backward. x (B,S,I); h0, c0 (B,H) or undefined for zeros; lengths i64 (B) or undefined for full rows. `reverse` starts at
// each row's last real token and ends at its first.
RecurrentOutput gru(const Var& x, const Var& h0, const RecurrentWeights& weights, const Tensor& lengths, bool reverse);
RecurrentOutput lstm(const Var& x, const Var& h0, const Var& c0, const RecurrentWeights& weights, const Tensor& lengths,
                     bool reverse);
RecurrentOutput rnn(const Var& x, const Var& h0, const RecurrentWeights& weights, const Tensor& lengths, bool reverse);

// ---- tensors, shared by the operations ---------------------------------------------------------------------------------
Tensor sum_to(Tensor x, const Dims& shape);  // undoes a broadcast: sums x over the axes that `shape` repeats

}  // namespace seqgrad
