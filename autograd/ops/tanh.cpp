// y = tanh x, elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var tanh(const Var& x) { return unary<kernels::Tanh>("tanh", x); }

SEQGRAD_CASES(tanh) {
  cases.add("tanh", tanh, {cases.normal({3, 5})});
  cases.add("tanh/transposed", [](Var x) { return tanh(transpose(x)); }, {cases.normal({3, 5})});
}

}  // namespace seqgrad
