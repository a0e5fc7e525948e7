#include "nn/layers.h"

#include <cmath>

namespace seqgrad::nn {

Linear::Linear(Module& parent, const std::string& name, i64 in, i64 out)
    : Module(parent, name),
      weight(add_parameter("weight", {out, in}, uniform_within(1 / std::sqrt(static_cast<double>(in))))),
      bias(add_parameter("bias", {out}, uniform_within(1 / std::sqrt(static_cast<double>(in))))) {}

Var Linear::operator()(const Var& x) const {
  Tape& tape = x.tape();
  return linear(x, tape.parameter(weight), tape.parameter(bias));
}

Embedding::Embedding(Module& parent, const std::string& name, i64 rows, i64 dim, i64 padding_idx)
    : Module(parent, name),
      weight(add_parameter("weight", {rows, dim}, standard_normal(padding_idx))),
      padding_idx_(padding_idx) {}

Var Embedding::operator()(Tape& tape, const Tensor& ids) const { return embedding(tape.parameter(weight), ids, padding_idx_); }

Var Dropout::operator()(const Var& x, Mode& mode) const {
  if (!mode.training || p_ == 0) return x;
  return dropout(x, p_, mode.seed, mode.next_stream++);
}

}  // namespace seqgrad::nn
