// y = scale x + shift;  dx = scale dy
#include "autograd/elementwise.h"

namespace seqgrad {

Var affine(const Var& input, double scale, double shift) {
  const Tensor x = input.value().contiguous();
  const Tensor y = empty_like(x);
  launch(kernels::affine, x, y, scale, shift, x.numel());
  return record("affine", {input}, y, [input, scale](const Tensor& dy) {
    Tensor dx = empty_like(dy);
    launch(kernels::affine, dy, dx, scale, 0.0, dx.numel());
    input.accumulate(std::move(dx));
  });
}

SEQGRAD_CASES(affine) {
  cases.add("affine", [](Var x) { return 2.5 * x - 1.0; }, {cases.normal({3, 5})});
}

}  // namespace seqgrad
