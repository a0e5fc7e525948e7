// A Module is a named tree of parameters. Names are PyTorch's, so that weights move between the two without renaming.
//
//   struct Model : Module {
//     Linear out{*this, "out", 8, 3};
//   };
//   Model model;
//   ParameterBlock block(model, DType::f32, generator);   // gives the parameters memory and initial values
//   model.out(x);
//
// A Module belongs to one thread at a time. It cannot be copied or moved: its parameters are referred to by address.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "tensor/random.h"

namespace seqgrad::nn {

using Initializer = std::function<void(const Tensor&, Generator&)>;

Initializer uniform_within(double bound);                 // uniform in [-bound, bound)
Initializer normal(double deviation, i64 zero_row = -1);  // of mean 0

class Module {
 public:
  Module() = default;
  Module(Module& parent, const std::string& name) { parent.children_.emplace_back(name, this); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // Full names ("encoder.gru.weight_ih_l0") in order of registration.
  std::vector<Parameter*> parameters();
  i64 parameter_count();

 protected:
  Parameter& add_parameter(const std::string& name, const Dims& shape, Initializer initializer);

 private:
  friend class ParameterBlock;
  struct Registered {
    std::string name;  // within its module; parameter.name is the full one
    Parameter parameter;
    Dims shape;
    Initializer initializer;
  };
  void collect(const std::string& prefix, std::vector<Registered*>& all);

  std::deque<Registered> own_;
  std::vector<std::pair<std::string, Module*>> children_;
};

// The memory of a module's parameters and of their gradients: one block each, so that clipping and the optimiser's step are
// single passes. Each parameter starts at a multiple of 64 bytes; the gaps are zero and stay so.
class ParameterBlock {
 public:
  ParameterBlock(Module& module, DType dtype, Generator& generator, Device device = Device::cpu);
  // Without initial values: for parameters that are read from a file.
  ParameterBlock(Module& module, DType dtype, Device device = Device::cpu) : ParameterBlock(module, dtype, nullptr, device) {}

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const Tensor& values() const { return values_; }
  // Parameter i's place, in its shape, within a tensor laid out like values(): an optimiser's moments, say.
  Tensor part(const Tensor& whole, std::size_t i) const;
  // Gradients of the last backward. Parameters that got none count as zero.
  const Tensor& gradients();
  void zero_grad();
  double gradient_norm();  // Euclidean, over all parameters
  // On the block's device, f64: the norm, and what an optimiser is to multiply the gradients by so that it is at most max_norm
  // (as torch.nn.utils.clip_grad_norm_). max_norm <= 0: 1.
  struct Clip {
    Tensor norm, scale;
  };
  Clip clip(double max_norm);

 private:
  ParameterBlock(Module& module, DType dtype, Generator* generator, Device device);

  std::vector<Parameter*> parameters_;
  std::vector<i64> begin_;
  Tensor values_, gradients_;
};

}  // namespace seqgrad::nn
