// y = a + b with broadcasting; the gradient of a repeated axis is a sum. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var add(const Var& a, const Var& b) { return binary<kernels::Add>("add", a, b); }

SEQGRAD_CASES(add) {
  cases.add("add", add, {cases.normal({2, 4, 3}), cases.normal({4, 1})});
  cases.add("add/same tensor twice", [](Var x) { return add(x, x); }, {cases.normal({3, 5})});
  cases.add("add/transposed", [](Var a, Var b) { return add(transpose(a), b); }, {cases.normal({3, 4}), cases.normal({4, 1})});
}

}  // namespace seqgrad
