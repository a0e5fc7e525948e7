// y = (x - mean) / sqrt(var + eps) weight + bias over the last axis (Ba, Kiros, Hinton 2016); var is the biased variance.
// With xh = (x - mean) / sqrt(var + eps) and g = dy weight:
//   dx = (g - mean(g) - xh mean(g xh)) / sqrt(var + eps),  dweight = sum of rows dy xh,  dbias = sum of rows dy
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

Var layer_norm(const Var& input, const Var& weight, const Var& bias, double eps) {
  const Tensor x = input.value().contiguous();
  const i64 cols = x.dim() ? x.size(-1) : 0;
  if (cols == 0 || !(weight.shape() == Dims{cols}) || !(bias.shape() == Dims{cols}))
    throw_error("[layer_norm] input {}, weight {} and bias {} do not fit", input.shape(), weight.shape(), bias.shape());
  const i64 rows = x.numel() / cols;
  const Tensor w = weight.value().contiguous(), b = bias.value().contiguous();
  const Tensor y = empty_like(x), mean({rows}, x.dtype(), x.device()), rstd({rows}, x.dtype(), x.device());
  launch(kernels::layer_norm, x, w, b, y, mean, rstd, rows, cols, eps);
  return record("layer_norm", {input, weight, bias}, y, [=, x = Saved(x), w = Saved(w)](const Tensor& dy) {
    Tensor dx = empty_like(dy);
    const auto sum_of_rows = [&](const Var& v) {
      return v.requires_grad() ? zeros({cols}, dy.dtype(), dy.device()) : Tensor();
    };
    Tensor dweight = sum_of_rows(weight), dbias = sum_of_rows(bias);
    launch(kernels::layer_norm_backward, dy, x.get(), w.get(), mean, rstd, dx, dweight, dbias, rows, cols);
    input.accumulate(std::move(dx));
    weight.accumulate(std::move(dweight));
    bias.accumulate(std::move(dbias));
  });
}

SEQGRAD_CASES(layer_norm) {
  cases.add("layer_norm", [](Var x, Var w, Var b) { return layer_norm(x, w, b); },
            {cases.normal({2, 3, 5}), cases.normal({5}), cases.normal({5})}, {"x", "weight", "bias"});
}

}  // namespace seqgrad
