#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/diagnosis.h"
#include "autograd/differences.h"
#include "tensor/random.h"

namespace seqgrad {
namespace {

// The fast check of one argument. Entries move in proportion to their size, all together by one step.
class AlongDirections {
 public:
  AlongDirections(CheckedPoint& point, std::size_t argument, const Tensor& analytic, const GradcheckOptions& options)
      : point_(point), argument_(argument), options_(options), gradient_(analytic.to_vector<double>()) {}

  void compare(GradcheckReport& report) {
    const CheckedPoint::Argument& argument = point_.arguments()[argument_];
    const std::size_t n = gradient_.size();
    Generator generator(options_.seed, 0x64697265 + argument_);
    for (int d = 0; d < options_.directions && n > 0; ++d) {
      std::vector<double> direction(n);
      double norm = 0, size = 0;
      for (double& v : direction) {
        v = generator.normal();
        norm += v * v;
      }
      for (std::size_t i = 0; i < n; ++i) {
        const double scale = std::max(1.0, std::fabs(argument.data()[i]));
        direction[i] *= scale / std::sqrt(norm);
        size += gradient_[i] * scale * gradient_[i] * scale / static_cast<double>(n);
      }
      const double analytic = derivative(0, direction), numeric = point_.along(argument_, 0, direction);
      const double error = relative_error(analytic, numeric, std::max(options_.floor, std::sqrt(size)));
      ++report.compared;
      if (report.compared > 1 && (error <= report.error || std::isnan(report.error))) continue;
      report.argument = argument.name;
      report.index = {};
      report.along_direction = true;
      report.analytic = analytic;
      report.numeric = numeric;
      report.error = error;
      if (!(error <= options_.rtol)) find_entry(report, argument, direction);
    }
  }

 private:
  double derivative(std::size_t begin, const std::vector<double>& direction) const {
    double sum = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) sum += gradient_[begin + i] * direction[i];
    return sum;
  }

  // Halves the direction until one entry is left, each time keeping the half that errs more.
  void find_entry(GradcheckReport& report, const CheckedPoint::Argument& argument, std::vector<double> direction) {
    std::size_t begin = 0;
    const auto error = [&](std::size_t at, const std::vector<double>& part) {
      const double e = std::fabs(derivative(at, part) - point_.along(argument_, static_cast<i64>(at), part));
      return std::isnan(e) ? std::numeric_limits<double>::infinity() : e;
    };
    while (direction.size() > 1) {
      const auto middle = direction.begin() + static_cast<std::ptrdiff_t>(direction.size() / 2);
      const std::vector<double> low(direction.begin(), middle), high(middle, direction.end());
      const bool in_low = error(begin, low) >= error(begin + low.size(), high);
      if (!in_low) begin += low.size();
      direction = in_low ? low : high;
    }
    const double numeric = point_.difference(argument_, static_cast<i64>(begin));
    const double entry_error = relative_error(gradient_[begin], numeric, options_.floor);
    if (entry_error <= options_.rtol) return;
    report.along_direction = false;
    report.index = unravel(static_cast<i64>(begin), argument.value.shape());
    report.analytic = gradient_[begin];
    report.numeric = numeric;
    report.error = entry_error;
  }

  CheckedPoint& point_;
  std::size_t argument_;
  const GradcheckOptions& options_;
  std::vector<double> gradient_;
};

void check(const GradcheckOptions& options) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  require_between("[gradcheck] eps", options.eps, 0, 1);
  require_between("[gradcheck] rtol", options.rtol, 0, 1);
  require_between("[gradcheck] floor", options.floor, 0, infinity);
  if (!(options.nondet_tol >= 0)) throw_error("[gradcheck] nondet_tol is {}: it must be at least 0", options.nondet_tol);
  if (!(options.reach > 0)) throw_error("[gradcheck] reach is {}: it must be above 0", options.reach);
  if (options.directions < 0) throw_error("[gradcheck] directions is {}: it must be at least 0", options.directions);
}

}  // namespace

GradcheckOptions GradcheckOptions::for_dtype(DType dtype) {
  GradcheckOptions options;
  options.dtype = dtype;
  if (dtype == DType::f32) {
    options.rtol = 1e-4;
    options.floor = 1e-2;
  }
  return options;
}

void detail::wrong_argument_count(std::size_t takes, std::size_t inputs) {
  throw_error("[gradcheck] the function takes {}, not {}", counted(static_cast<i64>(takes), "argument", "arguments"), inputs);
}

void require_between(const std::string& name, double value, double low, double high) {
  if (value > low && value < high) return;
  throw_error("{} is {}: it must be above {} and {}", name, value, low,
              high < std::numeric_limits<double>::infinity() ? fmt::format("below {}", high) : "finite");
}

GradcheckReport gradcheck_function(const GradcheckFunction& f, const std::vector<NamedTensor>& inputs,
                                   const std::vector<Parameter*>& parameters, const GradcheckOptions& options) {
  check(options);
  GradcheckReport report;
  report.rtol = options.rtol;
  CheckedPoint point(f, inputs, parameters, options);
  if (point.arguments().empty()) {
    report.problem = "nothing was compared: there is no floating-point argument";
    return report;
  }
  const std::vector<Tensor> analytic = point.gradients(options.dtype);
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    const CheckedPoint::Argument& argument = point.arguments()[i];
    if (!(analytic[i].shape() == argument.value.shape())) {
      report.problem =
          fmt::format("the gradient of {} has shape {}, not {}", argument.name, analytic[i].shape(), argument.value.shape());
      return report;
    }
    if (options.directions > 0)
      AlongDirections(point, i, analytic[i], options).compare(report);
    else
      compare(report, argument, analytic[i], point.differences(i), options.floor);
  }
  const std::vector<Tensor>& cotangents = point.cotangents();
  const bool silent = std::all_of(cotangents.begin(), cotangents.end(), [](const Tensor& t) { return t.numel() == 0; });
  if (report.compared == 0)
    report.problem = "nothing was compared: no argument has an entry";
  else if (silent)
    report.problem = "nothing was compared: the function gives no numbers";
  else if (report.ok())
    report.problem = not_deterministic(point, analytic, options);
  if (report.ok()) compare_twice(report, point, analytic, options);
  if (report.ok()) compare_outputs_alone(report, point, analytic, options);
  if (report.problem.empty() && !report.ok() && options.diagnose) report.cause = likely_cause(point, analytic, report, options);
  return report;
}

std::string counted(i64 count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string to_string(const GradcheckReport& report) {
  const std::string cause = report.cause.empty() ? "" : fmt::format("  likely cause: {}\n", report.cause);
  if (!report.problem.empty()) return fmt::format("FAILED: {}\n{}", report.problem, cause);
  std::string text = fmt::format("{}: worst of {} is {}: analytic {:.12g}, numeric {:.12g}, relative error {:.2e}",
                                 report.ok() ? "ok" : "FAILED",
                                 report.along_direction ? counted(report.compared, "direction", "directions")
                                                        : counted(report.compared, "entry", "entries"),
                                 worst_entry(report), report.analytic, report.numeric, report.error);
  if (!report.ok()) text += fmt::format(" > {:.0e}", report.rtol);
  if (report.wrong > 0) text += fmt::format("; {} of {} entries fail", report.wrong, report.entries);
  return text + "\n" + cause;
}

std::string worst_entry(const GradcheckReport& report) {
  if (report.argument.empty()) return "-";
  return report.along_direction ? fmt::format("{} along a random direction", report.argument)
                                : fmt::format("{} {}", report.argument, report.index);
}

}  // namespace seqgrad
