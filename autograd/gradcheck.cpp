#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "tensor/random.h"

namespace seqgrad {
namespace {

double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Dims unravel(i64 flat, const Dims& shape) {
  Dims index = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

struct Checked {
  std::string name;
  Tensor value;
  Tensor gradient;
};

void compare(GradcheckReport& report, const Checked& checked, const std::function<double()>& loss,
             const GradcheckOptions& options) {
  if (!(checked.gradient.shape() == checked.value.shape())) {
    report.problem =
        fmt::format("the gradient of {} has shape {}, not {}", checked.name, checked.gradient.shape(), checked.value.shape());
    return;
  }
  const std::vector<double> analytic = checked.gradient.to(DType::f64).to_vector<double>();
  for (i64 i = 0; i < checked.value.numel(); ++i) {
    const double x = checked.value.data<double>()[i];
    const double h = options.eps * std::max(1.0, std::fabs(x));
    const auto at = [&](double where) {
      checked.value.mutable_data<double>()[i] = where;
      return loss();
    };
    const double numeric = (at(x - 2 * h) - 8 * at(x - h) + 8 * at(x + h) - at(x + 2 * h)) / (12 * h);
    checked.value.mutable_data<double>()[i] = x;
    const double a = analytic[static_cast<std::size_t>(i)];
    const double error = std::fabs(a - numeric) / std::max({std::fabs(a), std::fabs(numeric), options.floor});
    ++report.compared;
    // Written so that a NaN anywhere becomes the worst entry and stays it.
    if (report.compared == 1 || !(error <= report.error)) {
      if (std::isnan(report.error)) continue;
      report.argument = checked.name;
      report.index = unravel(i, checked.value.shape());
      report.analytic = a;
      report.numeric = numeric;
      report.error = error;
    }
  }
}

}  // namespace

GradcheckReport gradcheck_function(const GradcheckFunction& f, const std::vector<NamedTensor>& inputs,
                                   const std::vector<Parameter*>& parameters, const GradcheckOptions& options) {
  GradcheckReport report;
  report.rtol = options.rtol;
  std::vector<Tensor> values;
  for (const NamedTensor& input : inputs) values.push_back(input.value.to(DType::f64).clone());
  for (const Parameter* parameter : parameters)
    if (parameter->value.dtype() != DType::f64)
      throw_error("[gradcheck] parameter {} is {}: differences need f64", parameter->name, name_of(parameter->value.dtype()));

  // Analytic, with random cotangents: gradients of ones would hide mistakes that cancel in a sum.
  Tape tape;
  std::vector<Checked> checked;
  std::vector<Tensor> cotangents;
  {
    std::vector<Var> leaves;
    for (const Tensor& value : values) leaves.push_back(tape.leaf(value));
    for (Parameter* parameter : parameters) parameter->has_grad = false;
    const std::vector<Var> outputs = f(tape, leaves);
    Generator generator(options.seed, 0x67726164);
    for (const Var& output : outputs) cotangents.push_back(randn(output.shape(), DType::f64, generator));
    tape.backward(outputs, cotangents);
    for (std::size_t i = 0; i < leaves.size(); ++i) checked.push_back({inputs[i].name, values[i], leaves[i].grad().clone()});
    for (Parameter* parameter : parameters)
      checked.push_back(
          {parameter->name, parameter->value, parameter->has_grad ? parameter->grad.clone() : zeros_like(parameter->value)});
  }

  const auto loss = [&] {
    NoGrad values_only;
    Tape forward;
    std::vector<Var> leaves;
    for (const Tensor& value : values) leaves.push_back(forward.constant(value));
    const std::vector<Var> outputs = f(forward, leaves);
    double sum = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) sum += dot(outputs[i].value(), cotangents[i]);
    return sum;
  };
  for (const Checked& one : checked) {
    compare(report, one, loss, options);
    if (!report.problem.empty()) return report;
  }
  const bool silent = std::all_of(cotangents.begin(), cotangents.end(), [](const Tensor& t) { return t.numel() == 0; });
  if (report.compared == 0)
    report.problem = "nothing was compared: no argument has an entry";
  else if (silent)
    report.problem = "nothing was compared: the function gives no numbers";
  return report;
}

std::string to_string(const GradcheckReport& report) {
  if (!report.problem.empty()) return fmt::format("FAILED: {}\n", report.problem);
  return fmt::format("{}: worst of {} entries is {} {}: analytic {:.12g}, numeric {:.12g}, relative error {:.2e}{}\n",
                     report.ok() ? "ok" : "FAILED", report.compared, report.argument, report.index, report.analytic,
                     report.numeric, report.error, report.ok() ? "" : fmt::format(" > {:.0e}", report.rtol));
}

}  // namespace seqgrad
