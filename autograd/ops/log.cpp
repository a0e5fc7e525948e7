// y = log x, elementwise. Value and derivative: kernels/elementwise.h.
#include "autograd/elementwise.h"

namespace seqgrad {

Var log(const Var& x) { return unary<kernels::Log>("log", x); }

SEQGRAD_CASES(log) { cases.add("log", log, {cases.uniform({3, 5}, 0.5, 3)}).domain("a", 0, infinity); }

}  // namespace seqgrad
