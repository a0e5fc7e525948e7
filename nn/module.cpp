#include "nn/module.h"

#include <cmath>

#include "tensor/launch.h"

namespace seqgrad::nn {

Initializer uniform_within(double bound) {
  return [bound](const Tensor& x, Generator& generator) { x.copy_from(rand(x.shape(), -bound, bound, x.dtype(), generator)); };
}

Initializer normal(double deviation, i64 zero_row) {
  return [=](const Tensor& x, Generator& generator) {
    x.copy_from(randn(x.shape(), x.dtype(), generator));
    if (deviation != 1) launch(kernels::affine, x, x, deviation, 0.0, x.numel());
    if (zero_row >= 0) x.select(0, zero_row).fill(0);
  };
}

Parameter& Module::add_parameter(const std::string& name, const Dims& shape, Initializer initializer) {
  own_.push_back({name, Parameter{name, {}, {}, false}, shape, std::move(initializer)});
  return own_.back().parameter;
}

void Module::collect(const std::string& prefix, std::vector<Registered*>& all) {
  for (Registered& one : own_) {
    one.parameter.name = prefix + one.name;
    all.push_back(&one);
  }
  for (auto& [name, child] : children_) child->collect(prefix + name + ".", all);
}

std::vector<Parameter*> Module::parameters() {
  std::vector<Registered*> all;
  collect("", all);
  std::vector<Parameter*> parameters;
  for (Registered* one : all) parameters.push_back(&one->parameter);
  return parameters;
}

i64 Module::parameter_count() {
  std::vector<Registered*> all;
  collect("", all);
  i64 count = 0;
  for (const Registered* one : all) count += one->shape.product();
  return count;
}

namespace {

// Initial values follow from the generator and the parameter's name, so that models which share some parameters, by name and
// shape, start from the same values there, whatever else they have. FNV-1a of 64 bits.
u64 stream_of(const std::string& name) {
  u64 hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

ParameterBlock::ParameterBlock(Module& module, DType dtype, Generator& generator, Device device)
    : ParameterBlock(module, dtype, &generator, device) {}

ParameterBlock::ParameterBlock(Module& module, DType dtype, Generator* generator, Device device) {
  std::vector<Module::Registered*> all;
  module.collect("", all);
  u64 seed = 0;
  if (generator)
    for (int half = 0; half < 2; ++half) seed = seed << 32 | generator->word();
  const i64 step = 64 / static_cast<i64>(size_of(dtype));
  i64 total = 0;
  for (const Module::Registered* one : all) {
    begin_.push_back(total);
    total += (one->shape.product() + step - 1) / step * step;
  }
  // Gradients are as good as undefined until has_grad, so neither block is cleared as a whole, which would touch every page of
  // it: only the gaps.
  values_ = Tensor({total}, dtype, device);
  gradients_ = Tensor({total}, dtype, device);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Module::Registered& one = *all[i];
    const auto place = [&](const Tensor& block) {
      return block.slice(0, begin_[i], begin_[i] + one.shape.product()).reshape(one.shape);
    };
    one.parameter.value = place(values_);
    one.parameter.grad = place(gradients_);
    one.parameter.has_grad = false;
    const i64 end = i + 1 < all.size() ? begin_[i + 1] : total;
    for (const Tensor& block : {values_, gradients_}) block.slice(0, begin_[i] + one.shape.product(), end).fill(0);
    if (generator) {
      Generator own(seed, stream_of(one.parameter.name));
      one.initializer(one.parameter.value, own);
    }
    parameters_.push_back(&one.parameter);
  }
}

Tensor ParameterBlock::part(const Tensor& whole, std::size_t i) const {
  const Dims& shape = parameters_[i]->value.shape();
  return whole.slice(0, begin_[i], begin_[i] + shape.product()).reshape(shape);
}

const Tensor& ParameterBlock::gradients() {
  for (Parameter* parameter : parameters_)
    if (!parameter->has_grad) {
      parameter->grad.fill(0);
      parameter->has_grad = true;
    }
  return gradients_;
}

void ParameterBlock::zero_grad() {
  for (Parameter* parameter : parameters_) parameter->has_grad = false;
}

double ParameterBlock::gradient_norm() { return clip(0).norm.item(); }

ParameterBlock::Clip ParameterBlock::clip(double max_norm) {
  const Tensor& g = gradients();
  const Tensor both({2}, DType::f64, g.device());
  launch(kernels::norm_and_clip, g, g.numel(), max_norm, both);
  return {both.select(0, 0), both.select(0, 1)};
}

}  // namespace seqgrad::nn
