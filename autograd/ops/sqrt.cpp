// y = sqrt x, elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var sqrt(const Var& x) { return unary<kernels::Sqrt>("sqrt", x); }

SEQGRAD_CASES(sqrt) { cases.add("sqrt", sqrt, {cases.uniform({3, 5}, 0.5, 3)}).domain("a", 0, infinity); }

}  // namespace seqgrad
