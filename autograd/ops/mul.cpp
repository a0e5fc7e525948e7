// y = a b with broadcasting; the gradient of a repeated axis is a sum. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var mul(const Var& a, const Var& b) { return binary<kernels::Mul>("mul", a, b); }

SEQGRAD_CASES(mul) {
  cases.add("mul", mul, {cases.normal({2, 4, 3}), cases.normal({4, 1})});
  cases.add("mul/same tensor twice", [](Var x) { return mul(x, x); }, {cases.normal({3, 5})});
  cases.add("mul/transposed", [](Var a, Var b) { return mul(transpose(a), b); }, {cases.normal({3, 4}), cases.normal({4, 1})});
}

}  // namespace seqgrad
