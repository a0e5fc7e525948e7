// Are the gradients right? Central differences of fourth order in f64, random cotangents, every entry of every argument.
//
//   auto report = gradcheck([](Var x, Var w) { return softmax(matmul(x, w)); }, {randn({3, 4}), randn({4, 2})});
//   fmt::print("{}", report);            // the worst entry by name and index, and the likely cause
//   if (!report.ok()) return 1;
//
// Fails on NaN, on a gradient of the wrong shape, on results that differ from run to run, and when nothing was compared.
// Thread-safe as a whole call.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "autograd/arity.h"
#include "autograd/tape.h"
#include "tensor/random.h"

namespace seqgrad {

// An entry passes when its error |analytic - numeric| / max(|analytic|, |numeric|, floor) is at most rtol: below the floor it
// is judged by its absolute error, which may be rtol * floor. Along directions, the floor is at least the size that the
// derivative along a direction has on average, so that one where much cancels by chance raises no alarm.
//
// Besides, the gradient of f(x) + f(x) must be twice that of f(x), by the same measure: so a backward that overwrites where it
// should add is caught even where f uses it once. And the gradients of several outputs must be the sum of those that each gives
// alone: so a backward that counts on a gradient of every output is caught.
struct GradcheckOptions {
  double eps = 1e-3;  // the differences' step is eps max(1, |x|)
  double rtol = 1e-7;
  double floor = 1e-4;
  double nondet_tol = 0;     // how far apart the values, or the gradients, of two runs may be
  u64 seed = 1;              // of the cotangents and directions
  DType dtype = DType::f64;  // in which the gradients are computed; the differences are always f64's
  int directions = 0;        // 0: every entry; n: n random directions for each argument, which is fast for large ones
  double reach = std::numeric_limits<double>::infinity();  // distance to a kink or the edge of the domain: no step beyond
  bool diagnose = true;                                    // look for the likely cause of a failure, by experiments

  // f32's gradients are compared with f64's differences at the same point: rtol 1e-4 and floor 0.01, so 1e-6 absolute.
  static GradcheckOptions for_dtype(DType dtype);
};

struct GradcheckReport {
  std::string argument;  // of the worst entry
  Dims index;
  double analytic = 0, numeric = 0, error = 0;
  i64 compared = 0;              // entries, or directions
  i64 wrong = 0, entries = 0;    // of that argument: how many fail, and how many there are
  bool along_direction = false;  // the worst is a direction; no single entry fails
  double rtol = 0;
  std::string problem;  // what made the check itself fail, when something did
  std::string cause;    // the likely cause of a failure; empty where none was found or looked for

  bool ok() const { return problem.empty() && compared > 0 && error <= rtol; }
};

// The checked function: from leaves in the order of the inputs to one or more outputs.
using GradcheckFunction = std::function<std::vector<Var>(Tape&, const std::vector<Var>&)>;

// Floating-point inputs are converted to f64 and checked; others, ids say, reach f as constants. Parameters, when given, must
// be f64 and are checked as well, by their names. Errors: an option outside its domain, and whatever f throws.
GradcheckReport gradcheck_function(const GradcheckFunction& f, const std::vector<NamedTensor>& inputs,
                                   const std::vector<Parameter*>& parameters = {}, const GradcheckOptions& options = {});

namespace detail {

[[noreturn]] void wrong_argument_count(std::size_t takes, std::size_t inputs);

template <class F>
std::vector<Var> call_with_vars(F& f, Tape& tape, const std::vector<Var>& v) {
  const auto listed = [](auto&& result) -> std::vector<Var> {
    if constexpr (std::is_convertible_v<decltype(result), Var>)
      return {result};
    else
      return result;
  };
  if constexpr (std::is_invocable_v<F&, Tape&, const std::vector<Var>&>) {
    return listed(f(tape, v));
  } else if constexpr (std::is_invocable_v<F&, const std::vector<Var>&>) {
    return listed(f(v));
  } else {
    constexpr std::size_t count = arity<F, Var>();
    static_assert(count > 0, "f takes one to eight Vars, or a std::vector<Var>, or a Tape& and a std::vector<Var>");
    if constexpr (count > 0) {
      if (v.size() != count) wrong_argument_count(count, v.size());
      return listed(call_with_elements(f, v));
    }
  }
}

}  // namespace detail

// f takes one to eight Vars, or a std::vector<Var>, or a Tape& and a std::vector<Var>; it returns a Var or several.
template <class F>
GradcheckFunction gradcheck_callable(F f) {
  return [f](Tape& tape, const std::vector<Var>& v) mutable { return detail::call_with_vars(f, tape, v); };
}

template <class F>
GradcheckReport gradcheck(F f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < inputs.size(); ++i) named.push_back({fmt::format("argument {}", i), inputs[i]});
  return gradcheck_function(gradcheck_callable(std::move(f)), named, {}, options);
}

// Error: "[gradcheck] rtol is 0: it must be above 0 and below 1". NaN is outside.
void require_between(const std::string& name, double value, double low, double high);

std::string counted(i64 count, const char* one, const char* many);  // "1 entry", "3 entries"
std::string to_string(const GradcheckReport& report);
std::string worst_entry(const GradcheckReport& report);  // "encoder.gru.weight_hh_l0 (3, 1)"

}  // namespace seqgrad

template <>
struct fmt::formatter<seqgrad::GradcheckReport> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const seqgrad::GradcheckReport& report, Context& context) const {
    return fmt::format_to(context.out(), "{}", seqgrad::to_string(report));
  }
};
