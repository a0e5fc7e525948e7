#include "nn/layer_norm.h"

#include "autograd/cases.h"

namespace seqgrad::nn {

LayerNorm::LayerNorm(Module& parent, const std::string& name, i64 width, double eps)
    : Module(parent, name),
      weight(add_parameter("weight", {width}, [](const Tensor& x, Generator&) { x.fill(1); })),
      bias(add_parameter("bias", {width}, [](const Tensor& x, Generator&) { x.fill(0); })),
      eps_(eps) {}

Var LayerNorm::operator()(const Var& x) const {
  Tape& tape = x.tape();
  return layer_norm(x, tape.parameter(weight), tape.parameter(bias), eps_);
}

}  // namespace seqgrad::nn

namespace seqgrad {

SEQGRAD_CASES(nn_layer_norm) {
  struct Owned : nn::Module {
    nn::LayerNorm norm{*this, "norm", 4};
    Generator generator{5};
    nn::ParameterBlock block{*this, DType::f64, generator};
  };
  const auto owned = std::make_shared<Owned>();
  cases.add("LayerNorm", [=](Var x) { return owned->norm(tanh(x)); }, {cases.normal({2, 3, 4})}, {"x"}).parameters_of(owned);
}

}  // namespace seqgrad
