// y = 1 / (1 + e^-x), elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var sigmoid(const Var& x) { return unary<kernels::Sigmoid>("sigmoid", x); }

SEQGRAD_CASES(sigmoid) {
  cases.add("sigmoid", sigmoid, {cases.normal({3, 5})});
  cases.add("sigmoid/transposed", [](Var x) { return sigmoid(transpose(x)); }, {cases.normal({3, 5})});
}

}  // namespace seqgrad
