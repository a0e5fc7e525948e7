// y = max(x, 0); the gradient at 0 is 0, elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var relu(const Var& x) { return unary<kernels::Relu>("relu", x); }

SEQGRAD_CASES(relu) { cases.add("relu", relu, {cases.away_from_zero({3, 5}, 0.1)}).kinks(0.1); }

}  // namespace seqgrad
