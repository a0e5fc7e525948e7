// y = e^x, elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var exp(const Var& x) { return unary<kernels::Exp>("exp", x); }

SEQGRAD_CASES(exp) {
  cases.add("exp", exp, {cases.normal({3, 5})});
  cases.add("exp/transposed", [](Var x) { return exp(transpose(x)); }, {cases.normal({3, 5})});
}

}  // namespace seqgrad
