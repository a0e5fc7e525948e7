// A function at a point, seen from both sides: its gradients as the tape computes them, and its values around the point, from
// which differences estimate them. What gradcheck, the diagnosis of its failures and the tests of both are made of.
// Belongs to one thread at a time. While a CheckedPoint exists it owns the values of the parameters given to it.
#pragma once

#include <optional>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/probe.h"

namespace seqgrad {

class CheckedPoint {
 public:
  struct Argument {
    std::string name;
    Tensor value;  // f64, contiguous; for f32 arithmetic rounded to it, so that both sides are at the same point
    double* data() const { return value.mutable_data<double>(); }
  };

  CheckedPoint(const GradcheckFunction& f, const std::vector<NamedTensor>& inputs, const std::vector<Parameter*>& parameters,
               const GradcheckOptions& options);
  ~CheckedPoint();
  CheckedPoint(const CheckedPoint&) = delete;
  CheckedPoint& operator=(const CheckedPoint&) = delete;

  const std::vector<Argument>& arguments() const { return arguments_; }
  // Random, fixed by the options' seed: gradients of ones would hide mistakes that cancel in a sum.
  const std::vector<Tensor>& cotangents() const { return cotangents_; }

  // The gradients of sum(f * cotangents) by the tape, one for each argument, in f64. `copies` of f are summed; `only` one of
  // the outputs gets a cotangent, if it is given.
  std::vector<Tensor> gradients(DType dtype, int copies = 1, TapeProbe* probe = nullptr, std::optional<std::size_t> only = {});
  // Every entry of every output at the arguments' values, one after the other, in f64.
  std::vector<double> outputs(TapeProbe* probe = nullptr);
  double value();  // sum(f * cotangents)

  // The step for an entry of this value, and the derivative with respect to that entry:
  // f'(x) = (f(x-2h) - 8 f(x-h) + 8 f(x+h) - f(x+2h)) / 12h + O(h^4)  (Abramowitz and Stegun 25.3.6)
  // The differences are taken output by output and summed then, so that large outputs that do not depend on the entry hide
  // nothing of the small ones that do.
  double step(double x) const;
  double difference(std::size_t argument, i64 entry);
  double difference(std::size_t argument, i64 entry, double h, const std::vector<Tensor>& cotangents,
                    TapeProbe* probe = nullptr);
  std::vector<double> differences(std::size_t argument);  // of every entry
  // The derivative along a direction of the argument's entries [begin, begin + direction.size()).
  double along(std::size_t argument, i64 begin, const std::vector<double>& direction);

 private:
  class WithType;
  std::vector<Var> call(Tape& tape, bool with_gradients, DType dtype, std::vector<Var>& inputs);
  // sum over the outputs' entries of cotangent times slope, where at(k) moves to k steps from the point.
  template <class At>
  double slope(const At& at, double h, const std::vector<Tensor>& cotangents, TapeProbe* probe);

  const GradcheckFunction& f_;
  std::vector<Tensor> constants_;    // one for each input: what is passed on as it is, undefined for an argument
  std::vector<Argument> arguments_;  // the other inputs, then the parameters
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> originals_;  // the parameters' values before
  std::vector<Tensor> cotangents_;
  GradcheckOptions options_;
};

Dims unravel(i64 flat, const Dims& shape);

// |analytic - numeric| / max(|analytic|, |numeric|, floor)
double relative_error(double analytic, double numeric, double floor);

// Takes one argument's entries into the report: it keeps the worst of all. A NaN anywhere becomes the worst and stays it.
void compare(GradcheckReport& report, const CheckedPoint::Argument& argument, const Tensor& analytic,
             const std::vector<double>& numeric, double floor);

}  // namespace seqgrad
