#include "autograd/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace seqgrad {
namespace {

// NaN is the same as itself.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

// Where two vectors are furthest apart.
std::size_t furthest(const std::vector<double>& a, const std::vector<double>& b) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < a.size(); ++i)
    if (distance(a[i], b[i]) > distance(a[worst], b[worst])) worst = i;
  return worst;
}

// A shape in a message, "(3, 4)", at `text`; moves text behind it.
Dims read_shape(const char*& text) {
  Dims shape;
  while (*text && *text != '(') ++text;
  if (*text) ++text;
  while (*text && *text != ')') {
    char* end = nullptr;
    shape.push_back(std::strtol(text, &end, 10));
    text = end;
    while (*text == ',' || *text == ' ') ++text;
  }
  return shape;
}

// Does summing over some axes turn `from` into `to`?
bool reduces_to(const Dims& from, const Dims& to) {
  if (to.size() > from.size()) return false;
  for (int d = 1; d <= to.size(); ++d)
    if (const i64 extent = to[to.size() - d]; extent != 1 && extent != from[from.size() - d]) return false;
  return true;
}

class Diagnosis {
 public:
  Diagnosis(CheckedPoint& point, const std::vector<Tensor>& analytic, const GradcheckReport& report,
            const GradcheckOptions& options)
      : point_(point), options_(options) {
    while (point.arguments()[argument_].name != report.argument) ++argument_;
    shape_ = point.arguments()[argument_].value.shape();
    if (!report.along_direction)
      for (int d = 0; d < shape_.size(); ++d) entry_ = entry_ * shape_[d] + report.index[d];
    gradient_ = analytic[argument_].to_vector<double>();
    all_gradients_ = analytic;
    x_ = point.arguments()[argument_].data()[entry_];
    h_ = point.step(x_);
    a_ = gradient_[static_cast<std::size_t>(entry_)];
  }

  std::string run() {
    using Experiment = std::string (Diagnosis::*)();
    for (const Experiment experiment : {&Diagnosis::not_deterministic, &Diagnosis::not_a_number, &Diagnosis::overwritten,
                                        &Diagnosis::rounded, &Diagnosis::step_too_small, &Diagnosis::kink,
                                        &Diagnosis::unresolved, &Diagnosis::not_contiguous, &Diagnosis::pattern})
      if (std::string cause = (this->*experiment)(); !cause.empty()) return cause;
    return "";
  }

 private:
  std::string not_deterministic() { return seqgrad::not_deterministic(point_, all_gradients_, options_); }

  std::string not_a_number() {
    const double value = point_.value();
    if (!std::isfinite(value))
      return fmt::format("the function itself is {} at this point", std::isnan(value) ? "not a number" : "infinite");
    if (!std::isfinite(a_)) return "only the gradient is not a number, the value is: the backward divides by zero or overflows";
    if (!std::isfinite(numeric(h_)))
      return fmt::format("the function is not a number within two steps of {:.2g} from {:.6g}: the edge of its domain", h_, x_);
    n_ = numeric(h_);
    return "";
  }

  std::string overwritten() {
    GradcheckReport twice;
    twice.rtol = options_.rtol;
    compare_twice(twice, point_, all_gradients_, options_);
    if (twice.error <= twice.rtol) return "";
    return fmt::format(
        "the gradient is overwritten instead of accumulated: of f(x) + f(x) it is {:.6g} at {}, not twice {:.6g}",
        2 * twice.analytic, worst_entry(twice), twice.numeric);
  }

  std::string rounded() {
    if (options_.dtype == DType::f32) {
      const Tensor precise = point_.gradients(DType::f64)[argument_];
      const double error = relative_error(precise.to_vector<double>()[static_cast<std::size_t>(entry_)], n_, options_.floor);
      if (error < relative_error(a_, n_, options_.floor) / 10)
        return fmt::format("f32 rounding: the same gradient computed in f64 has a relative error of {:.1e}", error);
    }
    // In steps far below f32's precision an f64 function still moves; one that rounds to f32 stands still.
    const double tiny = 1e-10 * std::max(1.0, std::fabs(x_));
    const double value = value_at(x_), moved = value_at(x_ + 4 * tiny);
    const bool visible = std::fabs(n_) * 4 * tiny > 1e-13 * std::fabs(value);
    if (visible && value == moved && std::fabs(numeric(h_ / 10) - n_) < 0.2 * std::fabs(n_))
      return fmt::format("f32 rounding: the forward gives the same value in steps of {:.0e}, so it computes in less than f64",
                         tiny);
    return "";
  }

  std::string step_too_small() {
    GradcheckOptions usual;
    const double h = std::min(usual.eps * std::max(1.0, std::fabs(x_)), options_.reach / 2.5);
    if (h <= h_) return "";
    const double better = std::fabs(a_ - numeric(h));
    if (!(better < std::fabs(a_ - n_) / 20)) return "";
    return fmt::format(
        "the step is too small: f64's rounding hides what it changes; with eps {:.0e} the relative error is {:.1e}", usual.eps,
        better / std::max(std::fabs(a_), options_.floor));
  }

  // The slopes to both sides, of second order, and how much they differ.
  double gap(double h) {
    const double here = value_at(x_);
    const double right = (-3 * here + 4 * value_at(x_ + h) - value_at(x_ + 2 * h)) / (2 * h);
    const double left = (3 * here - 4 * value_at(x_ - h) + value_at(x_ - 2 * h)) / (2 * h);
    return std::fabs(right - left);
  }

  // Where the function moves most within the reach of the differences, and by how much once that place is narrowed down a
  // million times: a continuous function then hardly moves.
  std::pair<double, double> jump() {
    constexpr int parts = 40;
    double low = x_ - 2 * h_, high = x_ + 2 * h_, at_low = value_at(low), before = at_low, most = 0;
    const double width = (high - low) / parts, begin = low;
    for (int i = 1; i <= parts; ++i) {
      const double here = value_at(begin + i * width);
      if (std::fabs(here - before) > most) {
        most = std::fabs(here - before);
        low = begin + (i - 1) * width;
        at_low = before;
      }
      before = here;
    }
    high = low + width;
    double at_high = value_at(high);
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2, here = value_at(middle);
      const bool in_low = std::fabs(here - at_low) > std::fabs(at_high - here);
      (in_low ? high : low) = middle;
      (in_low ? at_high : at_low) = here;
    }
    return {low, std::fabs(at_high - at_low) > 0.1 * most ? at_high - at_low : 0};
  }

  // Shrinking the step by ten, a smooth function's gap shrinks by a hundred; a kink at the point keeps its gap, and one beside
  // the point loses it at once.
  std::string kink() {
    const double size = std::max({std::fabs(a_), std::fabs(n_), options_.floor});
    const double wide = gap(h_), narrow = gap(h_ / 10), narrowest = gap(h_ / 100);
    if (wide > 1e-2 * size) {
      if (const auto [where, height] = jump(); height != 0)
        return fmt::format("the function jumps by {:.3g} at {:.6g}, within two steps of {:.2g} from {:.6g}", height, where, h_,
                           x_);
      const auto smooth = [](double before, double after) { return after < before / 10 && after > before / 1000; };
      if (!smooth(wide, narrow) || !smooth(narrow, narrowest))
        return fmt::format(
            "a kink within two steps of {:.2g} from {:.6g}: the slopes to its sides differ by {:.3g}; "
            "move the point away, or choose a smaller eps",
            h_, x_, wide);
    }
    const double error = std::fabs(a_ - n_), better = std::fabs(a_ - numeric(h_ / 4));
    if (better < error / 20)
      return fmt::format("the step is too large for the function's curvature: with eps {:.1e} the relative error is {:.1e}",
                         options_.eps / 4, better / size);
    return "";
  }

  std::string unresolved() {
    const double scatter = std::max(std::fabs(n_ - numeric(h_ / 2)), std::fabs(n_ - numeric(h_ * 0.9)));
    if (std::fabs(a_ - n_) > 3 * scatter) return "";
    return fmt::format("the tolerance is finer than differences resolve: other steps move the numeric value by {:.1e}",
                       scatter);
  }

  std::string not_contiguous() {
    struct Copies : TapeProbe {
      bool copies_views() const override { return true; }
    } copies;
    const double a =
        point_.gradients(options_.dtype, 1, &copies)[argument_].to_vector<double>()[static_cast<std::size_t>(entry_)];
    const double n = point_.difference(argument_, entry_, h_, point_.cotangents(), &copies);
    if (!(relative_error(a, n, options_.floor) <= options_.rtol)) return "";
    return "an operation takes memory that is not contiguous for contiguous: with copies in the place of views the check "
           "passes";
  }

  // How the argument's gradient as a whole relates to the right one, at up to 200 of its entries.
  std::string pattern() {
    const i64 count = static_cast<i64>(gradient_.size()), stride = std::max<i64>(1, count / 200);
    for (i64 i = entry_ % stride; i < count; i += stride) {
      sample_.push_back(i);
      right_.push_back(point_.difference(argument_, i));
    }
    const auto is = [&](const auto& expected) {  // the gradient as `expected` says, and neither zero nor right everywhere
      for (std::size_t k = 0; k < sample_.size(); ++k)
        if (!close(at(sample_[k]), expected(k))) return false;
      return true;
    };
    const std::string whose = name(argument_);
    if (is([](std::size_t) { return 0.0; }))
      return fmt::format("the gradient of {} is zero: the backward gives it none", whose);
    for (int p = 0; p < shape_.size(); ++p)
      for (int q = p + 1; q < shape_.size(); ++q)
        if (is_transposed(p, q))
          return fmt::format("the gradient of {} is transposed: its axes {} and {} change places", whose, p, q);
    const std::size_t largest = static_cast<std::size_t>(
        std::max_element(right_.begin(), right_.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); }) -
        right_.begin());
    const double factor = at(sample_[largest]) / right_[largest];
    if (is([&](std::size_t k) { return factor * right_[k]; })) {
      if (std::fabs(factor + 1) < 1e-6) return fmt::format("the gradient of {} has the other sign", whose);
      if (const i64 extent = std::lround(1 / factor); extent > 1 && std::fabs(factor * static_cast<double>(extent) - 1) < 1e-6)
        for (const Tensor& output : point_.cotangents())
          for (int d = 0; d < output.dim(); ++d)
            if (output.size(d) == extent && output.numel() > count)
              return fmt::format(
                  "broadcast not reduced: the gradient of {} is 1/{} of the right one, and axis {} of the output "
                  "{} has {} entries: a mean where a sum belongs",
                  whose, extent, d, output.shape(), extent);
      return fmt::format("the gradient of {} is scaled: everywhere {:.6g} times the right one", whose, factor);
    }
    if (std::string cause = unsummed(); !cause.empty()) return cause;
    const auto wrong = std::count_if(sample_.begin(), sample_.end(), [&, k = std::size_t{0}](i64 i) mutable {
      return !(relative_error(at(i), right_[k++], options_.floor) <= options_.rtol);
    });
    if (sample_.size() > 1 && static_cast<std::size_t>(wrong) < sample_.size())
      return fmt::format("only {} of {} entries of {} that were looked at are wrong: some are left out or mixed up", wrong,
                         sample_.size(), whose);
    return "";
  }

  bool is_transposed(int p, int q) const {
    bool moved = false;
    const Tensor places(shape_, DType::i64);
    for (i64 i = 0; i < places.numel(); ++i) places.mutable_data<i64>()[i] = i;
    // Where entry i of the right gradient lies once its memory is written in the transposed order.
    const std::vector<i64> order = places.transpose(p, q).to_vector<i64>();
    std::vector<i64> lies(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) lies[static_cast<std::size_t>(order[k])] = static_cast<i64>(k);
    for (std::size_t k = 0; k < sample_.size(); ++k) {
      const i64 there = lies[static_cast<std::size_t>(sample_[k])];
      moved |= there != sample_[k];
      if (!close(at(there), right_[k])) return false;
    }
    return moved;
  }

  // Is the gradient that of one slice of the output alone?
  std::string unsummed() {
    const std::size_t outputs = point_.cotangents().size();
    for (std::size_t o = 0; o < outputs; ++o)
      for (int d = 0; d < point_.cotangents()[o].dim(); ++d)
        for (const i64 slice : {i64{0}, point_.cotangents()[o].size(d) - 1}) {
          const i64 extent = point_.cotangents()[o].size(d);
          if (extent < 2) continue;
          std::vector<Tensor> cotangents = point_.cotangents();
          cotangents[o] = zeros_like(cotangents[o]);
          cotangents[o].slice(d, slice, slice + 1).copy_from(point_.cotangents()[o].slice(d, slice, slice + 1));
          bool equal = true;
          for (std::size_t k = 0; k < sample_.size() && equal; ++k)
            equal = close(at(sample_[k]), point_.difference(argument_, sample_[k], h_, cotangents));
          if (equal)
            return fmt::format(
                "broadcast not reduced: the gradient of {} is that of slice {} alone along axis {} of the output {}; "
                "it needs the sum of all {}",
                name(argument_), slice, d, point_.cotangents()[o].shape(), extent);
        }
    return "";
  }

  double value_at(double x) {
    double& place = point_.arguments()[argument_].data()[entry_];
    place = x;
    const double value = point_.value();
    place = x_;
    return value;
  }
  double numeric(double h) { return point_.difference(argument_, entry_, h, point_.cotangents()); }
  double at(i64 i) const { return gradient_[static_cast<std::size_t>(i)]; }
  bool close(double a, double b) const { return relative_error(a, b, options_.floor) <= std::max(options_.rtol, 1e-6); }
  const std::string& name(std::size_t argument) const { return point_.arguments()[argument].name; }

  CheckedPoint& point_;
  const GradcheckOptions& options_;
  std::size_t argument_ = 0;
  i64 entry_ = 0;
  Dims shape_;
  std::vector<Tensor> all_gradients_;
  std::vector<double> gradient_;          // of this argument
  double x_ = 0, h_ = 0, a_ = 0, n_ = 0;  // the entry's value, step, analytic and numeric derivative
  std::vector<i64> sample_;               // entries
  std::vector<double> right_;             // their numeric derivatives
};

}  // namespace

std::string likely_cause(CheckedPoint& point, const std::vector<Tensor>& analytic, const GradcheckReport& report,
                         const GradcheckOptions& options) {
  return Diagnosis(point, analytic, report, options).run();
}

std::string likely_cause(const std::string& error) {
  const std::size_t begin = error.find("a gradient of "), middle = error.find(" arrived for a value of ");
  if (begin == error.npos || middle == error.npos) return "";
  const char* text = error.c_str() + begin;
  const Dims gradient = read_shape(text), value = read_shape(text);
  if (gradient == value) return "the backward computes in another type than the value's";
  if (reduces_to(gradient, value))
    return fmt::format("broadcast not reduced: the backward should sum over the axes that the forward repeats, {} to {}",
                       gradient, value);
  std::vector<i64> a(gradient.begin(), gradient.end()), b(value.begin(), value.end());
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b ? "the gradient is transposed" : "";
}

std::string not_deterministic(CheckedPoint& point, const std::vector<Tensor>& analytic, const GradcheckOptions& options) {
  const std::vector<double> first = point.outputs(), second = point.outputs();
  if (first.size() != second.size())
    return fmt::format("the forward is not deterministic: it gave {} numbers, and then {}", first.size(), second.size());
  if (const std::size_t i = furthest(first, second); !first.empty() && distance(first[i], second[i]) > options.nondet_tol)
    return fmt::format("the forward is not deterministic: at one point it gave {:.12g}, and then {:.12g}", first[i], second[i]);
  const std::vector<Tensor> again = point.gradients(options.dtype);
  for (std::size_t i = 0; i < again.size(); ++i) {
    const std::vector<double> before = analytic[i].to_vector<double>(), after = again[i].to_vector<double>();
    const std::size_t k = furthest(before, after);
    if (!before.empty() && distance(before[k], after[k]) > options.nondet_tol)
      return fmt::format("the backward is not deterministic: two runs gave {} different gradients, {:.1e} apart",
                         point.arguments()[i].name, distance(before[k], after[k]));
  }
  return "";
}

void compare_outputs_alone(GradcheckReport& report, CheckedPoint& point, const std::vector<Tensor>& analytic,
                           const GradcheckOptions& options) {
  const std::size_t outputs = point.cotangents().size();
  if (outputs < 2) return;
  std::vector<Tensor> sums;
  for (const Tensor& gradient : analytic) sums.push_back(zeros_like(gradient));
  for (std::size_t o = 0; o < outputs; ++o) {
    std::vector<Tensor> alone;
    try {
      alone = point.gradients(options.dtype, 1, nullptr, o);
    } catch (const Error& error) {
      report.problem = fmt::format("where output {} alone gets a gradient: {}", o, error.what());
      return;
    }
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const double* from = alone[i].data<double>();
      double* to = sums[i].mutable_data<double>();
      for (i64 k = 0; k < sums[i].numel(); ++k) to[k] += from[k];
    }
  }
  GradcheckReport worst;
  worst.rtol = report.rtol;
  for (std::size_t i = 0; i < sums.size(); ++i)
    compare(worst, point.arguments()[i], sums[i], analytic[i].to_vector<double>(), options.floor);
  if (!(worst.error <= worst.rtol))
    report.problem = fmt::format(
        "the gradients that the {} outputs give alone do not add up: at {} to {:.12g}, where all together give {:.12g}",
        outputs, worst_entry(worst), worst.analytic, worst.numeric);
}

void compare_twice(GradcheckReport& report, CheckedPoint& point, const std::vector<Tensor>& analytic,
                   const GradcheckOptions& options, TapeProbe* probe) {
  const std::vector<Tensor> twice = point.gradients(options.dtype, 2, probe);
  GradcheckReport worst;
  worst.rtol = report.rtol;
  for (std::size_t i = 0; i < twice.size(); ++i) {
    std::vector<double> right = analytic[i].to_vector<double>();
    Tensor half = twice[i].clone();
    for (i64 k = 0; k < half.numel(); ++k) half.mutable_data<double>()[k] /= 2;
    compare(worst, point.arguments()[i], half, right, options.floor);
  }
  if (worst.error <= worst.rtol) return;
  worst.compared = report.compared;
  report = worst;
}

}  // namespace seqgrad
