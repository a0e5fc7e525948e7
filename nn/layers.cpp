#include "nn/layers.h"

#include <cmath>

#include "autograd/cases.h"

namespace seqgrad::nn {

Linear::Linear(Module& parent, const std::string& name, i64 in, i64 out, Parameter* shared)
    : Module(parent, name),
      weight(shared ? *shared : add_parameter("weight", {out, in}, uniform_within(1 / std::sqrt(static_cast<double>(in))))),
      bias(add_parameter("bias", {out}, uniform_within(1 / std::sqrt(static_cast<double>(in))))) {}

Var Linear::operator()(const Var& x) const {
  Tape& tape = x.tape();
  return linear(x, tape.parameter(weight), tape.parameter(bias));
}

Embedding::Embedding(Module& parent, const std::string& name, i64 rows, i64 dim, i64 padding_idx, double deviation,
                     Parameter* shared)
    : Module(parent, name),
      weight(shared ? *shared : add_parameter("weight", {rows, dim}, normal(deviation, padding_idx))),
      padding_idx_(padding_idx) {}

Var Embedding::operator()(Tape& tape, const Tensor& ids) const { return embedding(tape.parameter(weight), ids, padding_idx_); }

Var Dropout::operator()(const Var& x, Mode& mode) const {
  if (!mode.training || p_ == 0) return x;
  return dropout(x, p_, mode.seed, mode.next_stream++);
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_layers) {
  struct Owned : nn::Module {
    nn::Linear linear{*this, "linear", 3, 2};
    nn::Embedding embedding{*this, "embedding", 5, 3, 0};
    nn::Dropout dropout{0.3};
    Generator generator{5};
    nn::ParameterBlock block{*this, DType::f64, generator};
  };
  const auto owned = std::make_shared<Owned>();
  const Tensor ids = Tensor::from<i64>({3, 1, 3, 2}, {2, 2});  // not 0: padding's gradient is left out on purpose
  cases.add("Linear", [=](Var x) { return owned->linear(x); }, {cases.normal({2, 2, 3})}, {"x"}).parameters_of(owned);
  cases
      .add("Embedding, Dropout and Linear",
           [=](Tape& tape, const std::vector<Var>&) {
             nn::Mode mode = nn::Mode::training_step(3, 1);
             return owned->linear(tanh(owned->dropout(owned->embedding(tape, ids), mode)));
           },
           {})
      .parameters_of(owned);
}

}  // namespace seqgrad
