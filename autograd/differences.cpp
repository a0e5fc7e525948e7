#include "autograd/differences.h"

#include <algorithm>
#include <cmath>

#include "tensor/random.h"

namespace seqgrad {
namespace {

double dot(const std::vector<double>& entries, const std::vector<Tensor>& cotangents) {
  double sum = 0;
  std::size_t i = 0;
  for (const Tensor& cotangent : cotangents)
    for (const double c : cotangent.to_vector<double>()) sum += entries.at(i++) * c;
  return sum;
}

}  // namespace

// In its scope the parameters have another element type and are on the device that computes.
class CheckedPoint::WithType {
 public:
  WithType(const std::vector<Parameter*>& parameters, DType dtype) : parameters_(parameters) {
    for (Parameter* parameter : parameters_) {
      before_.emplace_back(parameter->value, parameter->grad);
      if (parameter->value.dtype() == dtype && parameter->value.device() == default_device()) continue;
      parameter->value = parameter->value.to(dtype).to(default_device());
      parameter->grad = zeros_like(parameter->value);
    }
  }
  ~WithType() {
    for (std::size_t i = 0; i < before_.size(); ++i)
      std::tie(parameters_[i]->value, parameters_[i]->grad) = std::move(before_[i]);
  }
  WithType(const WithType&) = delete;
  WithType& operator=(const WithType&) = delete;

 private:
  const std::vector<Parameter*>& parameters_;
  std::vector<std::pair<Tensor, Tensor>> before_;
};

CheckedPoint::CheckedPoint(const GradcheckFunction& f, const std::vector<NamedTensor>& inputs,
                           const std::vector<Parameter*>& parameters, const GradcheckOptions& options)
    : f_(f), parameters_(parameters), options_(options) {
  if (options.dtype != DType::f64 && options.dtype != DType::f32)
    throw_error("[gradcheck] gradients are f32 or f64, not {}", name_of(options.dtype));
  for (const Parameter* parameter : parameters)
    if (parameter->value.dtype() != DType::f64)
      throw_error("[gradcheck] parameter {} is {}: differences need f64", parameter->name, name_of(parameter->value.dtype()));
  const auto rounded = [&](const Tensor& x) { return x.to(options.dtype).to(DType::f64); };
  for (const NamedTensor& input : inputs) {
    if (!input.value.defined()) throw_error("[gradcheck] {} is a tensor without contents", input.name);
    constants_.push_back(input.value.is_floating() ? Tensor() : input.value);
    if (input.value.is_floating()) arguments_.push_back({input.name, rounded(input.value.to(DType::f64)).clone()});
  }
  for (Parameter* parameter : parameters) {
    originals_.push_back(parameter->value.clone());
    parameter->value.copy_from(rounded(originals_.back()));
    arguments_.push_back({parameter->name, parameter->value});
  }
  const WithType typed(parameters_, DType::f64);
  Tape tape;
  std::vector<Var> vars;
  const std::vector<Var> outputs = call(tape, false, DType::f64, vars);
  Generator generator(options.seed, 0x67726164);
  for (const Var& output : outputs) cotangents_.push_back(rounded(randn(output.shape(), DType::f64, generator)));
}

CheckedPoint::~CheckedPoint() {
  for (std::size_t i = 0; i < originals_.size(); ++i) parameters_[i]->value.copy_from(originals_[i]);
}

std::vector<Var> CheckedPoint::call(Tape& tape, bool with_gradients, DType dtype, std::vector<Var>& inputs) {
  if (inputs.empty()) {
    auto argument = arguments_.begin();
    for (const Tensor& constant : constants_) {
      const Tensor value = constant.defined() ? constant : argument++->value.to(dtype).to(default_device());
      inputs.push_back(with_gradients && !constant.defined() ? tape.leaf(value) : tape.constant(value));
    }
  }
  if (with_gradients) return f_(tape, inputs);
  NoGrad values_only;
  return f_(tape, inputs);
}

std::vector<Tensor> CheckedPoint::gradients(DType dtype, int copies, TapeProbe* probe, std::optional<std::size_t> only) {
  const WithType typed(parameters_, dtype);
  for (Parameter* parameter : parameters_) parameter->has_grad = false;
  Tape tape;
  tape.set_probe(probe);
  std::vector<Var> inputs, outputs;
  std::vector<Tensor> cotangents;
  for (int copy = 0; copy < copies; ++copy) {
    const std::vector<Var> more = call(tape, true, dtype, inputs);
    if (more.size() != cotangents_.size())
      throw_error("[gradcheck] the function gave {} outputs, and then {}", cotangents_.size(), more.size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (only && i != *only) continue;
      outputs.push_back(more[i]);
      cotangents.push_back(cotangents_[i].to(more[i].dtype()).to(default_device()));
    }
  }
  tape.backward(outputs, cotangents);
  std::vector<Tensor> all;
  for (const Var& input : inputs)
    if (input.requires_grad()) all.push_back(input.grad().to(Device::cpu).to(DType::f64).clone());
  for (const Parameter* parameter : parameters_)
    all.push_back(parameter->has_grad ? parameter->grad.to(Device::cpu).to(DType::f64).clone()
                                      : zeros(parameter->value.shape(), DType::f64));
  return all;
}

std::vector<double> CheckedPoint::outputs(TapeProbe* probe) {
  const WithType typed(parameters_, DType::f64);
  Tape tape;
  tape.set_probe(probe);
  std::vector<Var> inputs;
  std::vector<double> entries;
  for (const Var& output : call(tape, false, DType::f64, inputs)) {
    const std::vector<double> more = output.value().to(DType::f64).to_vector<double>();
    entries.insert(entries.end(), more.begin(), more.end());
  }
  return entries;
}

double CheckedPoint::value() { return dot(outputs(), cotangents_); }

template <class At>
double CheckedPoint::slope(const At& at, double h, const std::vector<Tensor>& cotangents, TapeProbe* probe) {
  const auto values = [&](int steps) {
    at(steps);
    return outputs(probe);
  };
  const std::vector<double> below = values(-1), far_below = values(-2);
  std::vector<double> slopes = values(1);
  const std::vector<double> far_above = values(2);
  for (std::size_t i = 0; i < slopes.size(); ++i)
    slopes[i] = (8 * (slopes[i] - below.at(i)) - (far_above.at(i) - far_below.at(i))) / (12 * h);
  return dot(slopes, cotangents);
}

// The differences reach two steps from the point, and must not reach a kink.
double CheckedPoint::step(double x) const { return std::min(options_.eps * std::max(1.0, std::fabs(x)), options_.reach / 2.5); }

double CheckedPoint::difference(std::size_t argument, i64 entry) {
  return difference(argument, entry, step(arguments_[argument].data()[entry]), cotangents_);
}

double CheckedPoint::difference(std::size_t argument, i64 entry, double h, const std::vector<Tensor>& cotangents,
                                TapeProbe* probe) {
  const Argument& varied = arguments_[argument];
  const double x = varied.data()[entry];
  const double found = slope([&](int steps) { varied.data()[entry] = x + steps * h; }, h, cotangents, probe);
  varied.data()[entry] = x;
  return found;
}

std::vector<double> CheckedPoint::differences(std::size_t argument) {
  std::vector<double> all;
  for (i64 i = 0; i < arguments_[argument].value.numel(); ++i) all.push_back(difference(argument, i));
  return all;
}

double CheckedPoint::along(std::size_t argument, i64 begin, const std::vector<double>& direction) {
  const Argument& varied = arguments_[argument];
  double* x = varied.data() + begin;
  const std::vector<double> start(x, x + direction.size());
  double most = 0;
  for (const double d : direction) most = std::max(most, std::fabs(d));
  const double h = std::min(options_.eps, options_.reach / (2.5 * most));
  const auto at = [&](int steps) {
    double* y = varied.data() + begin;
    for (std::size_t i = 0; i < direction.size(); ++i) y[i] = start[i] + steps * h * direction[i];
  };
  const double found = slope(at, h, cotangents_, nullptr);
  std::copy(start.begin(), start.end(), varied.data() + begin);
  return found;
}

Dims unravel(i64 flat, const Dims& shape) {
  Dims index = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

double relative_error(double analytic, double numeric, double floor) {
  return std::fabs(analytic - numeric) / std::max({std::fabs(analytic), std::fabs(numeric), floor});
}

void compare(GradcheckReport& report, const CheckedPoint::Argument& argument, const Tensor& analytic,
             const std::vector<double>& numeric, double floor) {
  const std::vector<double> a = analytic.to_vector<double>();
  i64 wrong = 0;
  bool worst_is_here = false;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    const double error = relative_error(a[i], numeric[i], floor);
    wrong += !(error <= report.rtol);
    ++report.compared;
    if (report.compared > 1 && (error <= report.error || std::isnan(report.error))) continue;
    worst_is_here = true;
    report.argument = argument.name;
    report.index = unravel(static_cast<i64>(i), argument.value.shape());
    report.analytic = a[i];
    report.numeric = numeric[i];
    report.error = error;
  }
  if (worst_is_here) {
    report.wrong = wrong;
    report.entries = argument.value.numel();
  }
}

}  // namespace seqgrad
