// y = x m / (1 - p), m ~ Bernoulli(1 - p);  dx = dy m / (1 - p). The mask is never stored: it is drawn again from its counter.
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

Var dropout(const Var& input, double p, u64 seed, u64 stream) {
  if (!(p >= 0 && p <= 1)) throw_error("[dropout] probability {} is outside [0, 1]", p);
  const Tensor x = input.value().contiguous();
  const Tensor y = empty_like(x);
  launch(kernels::dropout, x, y, x.numel(), p, seed, stream);
  return record("dropout", {input}, y, [=](const Tensor& dy) {
    Tensor dx = empty_like(dy);
    launch(kernels::dropout, dy, dx, dx.numel(), p, seed, stream);
    input.accumulate(std::move(dx));
  });
}

SEQGRAD_CASES(dropout) {
  cases.add("dropout", [](Var x) { return dropout(x, 0.4, 11, 3); }, {cases.normal({5, 7})});
}

}  // namespace seqgrad
