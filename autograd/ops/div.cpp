// y = a / b with broadcasting; the gradient of a repeated axis is a sum. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var div(const Var& a, const Var& b) { return binary<kernels::Div>("div", a, b); }

SEQGRAD_CASES(div) {
  cases.add("div", div, {cases.normal({2, 4, 3}), cases.uniform({4, 1}, 0.5, 2)}).domain("b", 0, infinity);
  cases.add("div/same tensor twice", [](Var x) { return div(x, x); }, {cases.uniform({3, 5}, 0.5, 2)}).domain("a", 0, infinity);
  cases
      .add("div/transposed", [](Var a, Var b) { return div(transpose(a), b); },
           {cases.normal({3, 4}), cases.uniform({4, 1}, 0.5, 2)})
      .domain("b", 0, infinity);
}

}  // namespace seqgrad
