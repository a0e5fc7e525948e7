// Would the checks notice? Every gradient that any operation hands to any of its inputs, in every case of the registry, is
// spoiled in each of seven ways, and the case's check must then fail: wherever the spoiling changes a gradient at all.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "autograd/cases.h"
#include "autograd/custom_op.h"
#include "autograd/diagnosis.h"

using namespace seqgrad;

namespace {

enum class Kind { zeroed, scaled, transposed, negated, dropped, overwritten, unsummed };
constexpr std::array kinds{Kind::zeroed,  Kind::scaled,      Kind::transposed, Kind::negated,
                           Kind::dropped, Kind::overwritten, Kind::unsummed};
const char* name_of(Kind kind) {
  constexpr std::array names{"zeroed",      "scaled by 1.01",      "transposed", "of the other sign", "one element dropped",
                             "overwritten", "broadcast not summed"};
  return names[static_cast<std::size_t>(kind)];
}

struct Target {
  std::string op;
  std::size_t node;
  int number;
  Dims shape, output;  // of the gradient, of the operation's first output
};

// Lists what is delivered.
class Listing : public TapeProbe {
 public:
  std::vector<Target> targets;
  std::map<std::size_t, int> deliveries;  // by node

  void around(const char*, std::size_t, std::span<const Tensor> dy, const Backward& backward) override {
    for (const Tensor& one : dy)
      if (one.defined()) {
        output_ = one.shape();
        break;
      }
    backward(dy);
  }
  void deliver(Delivery& d) override {
    targets.push_back({d.op, d.node, d.number, d.gradient.shape(), output_});
    ++deliveries[d.node];
  }
  bool copies_views() const override { return true; }

 private:
  Dims output_;
};

// Spoils one of them.
class Mutation : public TapeProbe {
 public:
  Mutation(const Target& target, Kind kind, int deliveries, int axis)
      : target_(target), kind_(kind), deliveries_(deliveries), axis_(axis) {}

  bool copies_views() const override { return true; }

  // Without the sum over an axis of the output, a gradient is that of one slice of the output alone. So the backward runs for
  // the slice, from which the target takes its gradient, and then as it should, for all others.
  void around(const char*, std::size_t node, std::span<const Tensor> dy, const Backward& backward) override {
    if (kind_ == Kind::unsummed && node == target_.node) {
      std::vector<Tensor> slice(dy.begin(), dy.end());
      for (Tensor& one : slice)
        if (one.defined() && axis_ < one.dim() && one.size(axis_) == target_.output[axis_]) {
          const Tensor first = zeros_like(one);
          first.slice(axis_, 0, 1).copy_from(one.slice(axis_, 0, 1));
          one = first;
        }
      backward(slice);
    }
    backward(dy);
  }

  void deliver(Delivery& d) override {
    if (d.node != target_.node) return;
    const Tensor& g = d.gradient;
    if (kind_ == Kind::unsummed) {
      const bool for_slice = d.number < deliveries_, ours = d.number % deliveries_ == target_.number;
      if (for_slice != ours) d.gradient = zeros_like(g);
      return;
    }
    if (d.number != target_.number) return;
    switch (kind_) {
      case Kind::zeroed:
        d.gradient = zeros_like(g);
        break;
      case Kind::scaled:
        d.gradient = map([](auto v) { return 1.01 * v; }, g);
        break;
      case Kind::negated:
        d.gradient = map([](auto v) { return -v; }, g);
        break;
      case Kind::transposed:
        d.gradient = g.transpose(-2, -1).clone().reshape(g.shape());
        break;
      case Kind::dropped:
        d.gradient = g.clone();
        d.gradient.mutable_data<double>()[middle(g)] = 0;
        break;
      case Kind::overwritten:
        d.overwrite = true;
        break;
      case Kind::unsummed:
        break;
    }
  }

 private:
  // The entry in the middle, or the next that is not zero already.
  static i64 middle(const Tensor& g) {
    const std::vector<double> values = g.to_vector<double>();
    const std::size_t n = values.size();
    for (std::size_t i = n / 2; i < n / 2 + n; ++i)
      if (values[i % n] != 0) return static_cast<i64>(i % n);
    return static_cast<i64>(n / 2);
  }

  const Target& target_;
  Kind kind_;
  int deliveries_, axis_;
};

// The output's axes over which the gradient has to be summed: where its shape, aligned at the end, has none or an extent of 1.
std::vector<int> broadcast_axes(const Target& target) {
  std::vector<int> axes;
  for (int d = 0; d < target.output.size(); ++d) {
    const int own = d - target.output.size() + target.shape.size();
    if (target.output[d] > 1 && (own < 0 || target.shape[own] == 1)) axes.push_back(d);
  }
  return axes;
}

// By how much two sets of gradients differ, measured as the check does.
double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = a[i].to_vector<double>(), y = b[i].to_vector<double>();
    for (std::size_t k = 0; k < x.size(); ++k) most = std::max(most, relative_error(x[k], y[k], GradcheckOptions().floor));
  }
  return most;
}

struct Survivor {
  std::string name;
  bool excused;
};

struct Count {
  int tried = 0, applicable = 0, caught = 0;
};

class MutatedCase {
 public:
  MutatedCase(const Case& one, std::map<Kind, Count>& counts, std::vector<Survivor>& survivors)
      : name_(one.name), counts_(counts), survivors_(survivors), point_(one.function, one.inputs, one.parameters, {}) {
    options_.rtol = one.rtol;
    for (std::size_t i = 0; i < point_.arguments().size(); ++i) numeric_.push_back(point_.differences(i));
  }

  std::set<std::string> run() {
    Listing listing;
    once_ = point_.gradients(DType::f64, 1, &listing);
    const std::vector<Target> targets = listing.targets;
    const std::map<std::size_t, int> deliveries = listing.deliveries;
    REQUIRE(check(once_).ok());
    twice_ = point_.gradients(DType::f64, 2);
    std::set<std::string> ops;
    for (const Target& target : targets) {
      ops.insert(target.op);
      for (const Kind kind : kinds) {
        if (kind == Kind::transposed && target.shape.size() < 2) continue;
        const std::vector<int> axes = kind == Kind::unsummed ? broadcast_axes(target) : std::vector<int>{0};
        for (const int axis : axes) {
          Mutation mutation(target, kind, deliveries.at(target.node), axis);
          mutate(target, kind, mutation);
        }
      }
    }
    return ops;
  }

 private:
  GradcheckReport check(const std::vector<Tensor>& gradients) {
    GradcheckReport report;
    report.rtol = options_.rtol;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      compare(report, point_.arguments()[i], gradients[i], numeric_[i], options_.floor);
    return report;
  }

  void mutate(const Target& target, Kind kind, Mutation& mutation) {
    Count& count = counts_[kind];
    ++count.tried;
    const std::vector<Tensor> gradients = point_.gradients(DType::f64, 1, &mutation);
    double change = difference(gradients, once_);
    GradcheckReport report = check(gradients);
    if (report.ok() && kind == Kind::overwritten) {  // what gradcheck does when all entries pass
      change = std::max(change, difference(point_.gradients(DType::f64, 2, &mutation), twice_));
      compare_twice(report, point_, gradients, options_, &mutation);
    }
    constexpr double rounding = 1e-11;
    if (change < rounding) return;
    ++count.applicable;
    count.caught += !report.ok();
    if (!report.ok()) return;
    // The one excuse: all that changes is smaller than what the check may overlook.
    const bool excused = change < 1.1 * options_.rtol;
    survivors_.push_back(
        {fmt::format("{}: gradient {} of {} (node {}), {}: changes gradients by {:.1e}, {} the tolerance {:.0e}", name_,
                     target.number, target.op, target.node, name_of(kind), change, excused ? "within" : "above", options_.rtol),
         excused});
  }

  std::string name_;
  std::map<Kind, Count>& counts_;
  std::vector<Survivor>& survivors_;
  CheckedPoint point_;
  GradcheckOptions options_;
  std::vector<std::vector<double>> numeric_;
  std::vector<Tensor> once_, twice_;
};

}  // namespace

TEST_CASE("every spoiled gradient is caught") {
  Cases cases;
  add_autograd_cases(cases);
  add_nn_cases(cases);
  add_seq2seq_cases(cases);
  std::map<Kind, Count> counts;
  std::vector<Survivor> survivors;
  std::set<std::string> ops;
  for (const Case& one : cases.all()) {
    CAPTURE(one.name);
    const std::set<std::string> spoiled = MutatedCase(one, counts, survivors).run();
    ops.insert(spoiled.begin(), spoiled.end());
  }
  fmt::print("{} cases, {} operations\n{:22} {:>16} {:>10} {:>10}\n", cases.all().size(), ops.size(), "gradient", "caught",
             "applicable", "tried");
  for (const Kind kind : kinds) {
    const Count& count = counts[kind];
    fmt::print("{:22} {:>16} {:>10} {:>10}\n", name_of(kind), count.caught, count.applicable, count.tried);
    CHECK(count.applicable > 0);
  }
  for (const Survivor& survivor : survivors) {
    fmt::print("not caught: {}\n", survivor.name);
    CHECK_MESSAGE(survivor.excused, survivor.name);
  }
  CHECK(survivors.size() < 20);
}
