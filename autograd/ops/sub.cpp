// y = a - b with broadcasting; the gradient of a repeated axis is a sum. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var sub(const Var& a, const Var& b) { return binary<kernels::Sub>("sub", a, b); }

SEQGRAD_CASES(sub) {
  cases.add("sub", sub, {cases.normal({2, 4, 3}), cases.normal({4, 1})});
  cases.add("sub/same tensor twice", [](Var x) { return sub(x, x); }, {cases.normal({3, 5})});
  cases.add("sub/transposed", [](Var a, Var b) { return sub(transpose(a), b); }, {cases.normal({3, 4}), cases.normal({4, 1})});
}

}  // namespace seqgrad
