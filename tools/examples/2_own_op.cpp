// Two operations of one's own, and the program that checks their gradients: main() comes from seqgrad::gradcheck_main.
#include <seqgrad/autograd/cases.h>
#include <seqgrad/autograd/custom_op.h>
#include <seqgrad/autograd/ops.h>

#include <cmath>

using namespace seqgrad;

// y = log(1 + e^x);  dx = dy / (1 + e^-x)
const auto softplus = custom_op(
    "softplus", [](const Tensor& x) { return map([](auto v) { return std::log1p(std::exp(v)); }, x); },
    [](const Tensor& dy, const Tensor& x) { return map([](auto d, auto v) { return d / (1 + std::exp(-v)); }, dy, x); });

// y = s x, x (m, n), one factor for each row, s (m, 1);  dx = s dy, ds = sum of x dy over the row
Tensor times(const Tensor& a, const Tensor& b) {
  return map([](auto u, auto v) { return u * v; }, a, b);
}
const auto scale_rows = custom_op(
    "scale_rows", [](const Tensor& x, const Tensor& s) { return times(x, s.expand(x.shape())); },
    [](const Tensor& dy, const Tensor& x, const Tensor& s) {
      return std::vector<Tensor>{times(dy, s.expand(x.shape())), sum_to(times(dy, x), s.shape())};
    });

SEQGRAD_GRADCHECK_CASES {
  cases.add("softplus", softplus, {cases.normal({3, 4})});
  cases.add("scale_rows", scale_rows, {cases.normal({3, 4}), cases.normal({3, 1})}, {"x", "s"});
  cases.add("both", [](Var x, Var s) { return softplus(scale_rows(transpose(x), s)); },
            {cases.normal({4, 3}), cases.normal({3, 1})}, {"x", "s"});
}
