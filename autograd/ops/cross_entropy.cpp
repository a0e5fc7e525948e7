// With p = softmax(logits) and q = (1 - e) onehot(target) + e / V (e the label smoothing), per row
//   loss = - sum_j q_j log p_j,   dlogits = (p - q) dloss
// and the mean over the rows whose target is not ignored, or their sum.
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {
namespace {

void check(const char* op, i64 rows, i64 classes, const Tensor& target, const CrossEntropyOptions& options) {
  if (target.dtype() != DType::i64 || !(target.shape() == Dims{rows}))
    throw_error("[{}] {} rows of logits need i64 targets of shape ({}), not {} {}", op, rows, rows, name_of(target.dtype()),
                target.shape());
  if (options.label_smoothing < 0 || options.label_smoothing >= 1)
    throw_error("[{}] label smoothing {} is outside [0, 1)", op, options.label_smoothing);
  const i64* t = target.data<i64>();
  for (i64 i = 0; i < rows; ++i)
    if (t[i] != options.ignore_index && (t[i] < 0 || t[i] >= classes))
      throw_error("[{}] target {} at row {} is not one of {} classes", op, t[i], i, classes);
}

// What one row's loss counts for in the result. All rows ignored: 0, where PyTorch says NaN.
double row_weight(const Tensor& target, const CrossEntropyOptions& options) {
  if (options.reduction == Reduction::sum) return 1;
  i64 counted = 0;
  for (i64 t : target.to_vector<i64>()) counted += t != options.ignore_index;
  return counted ? 1.0 / static_cast<double>(counted) : 0;
}

Tensor reduce(const Tensor& losses, double weight) {
  const Tensor total = sum_to(losses, {});
  launch(kernels::affine, total, total, weight, 0.0, i64{1});
  return total;
}

// x dy is `x` times `factor`. On the CPU dy is a number at hand, and multiplying it in later saves a pass over x; to ask a
// device for it would be to wait for all that it still has to do.
struct Factored {
  Tensor x;
  double factor;
};
Factored multiply(const Tensor& x, const Tensor& dy) {
  if (x.device() == Device::cpu) return {x, dy.item()};
  const Tensor product = empty_like(x);
  launch(kernels::binary<kernels::Mul>, x, x.strides(), dy, dy.expand(x.shape()).strides(), product, x.shape(), x.dim());
  return {product, 1};
}

}  // namespace

Var cross_entropy(const Var& input, const Tensor& target_in, const CrossEntropyOptions& options) {
  if (input.dim() != 2) throw_error("[cross_entropy] needs logits of shape (N, V), not {}", input.shape());
  const Tensor logits = input.value().contiguous(), target = target_in.contiguous();
  const i64 rows = logits.size(0), classes = logits.size(1);
  check("cross_entropy", rows, classes, target, options);
  const Tensor losses({rows}, logits.dtype(), logits.device());
  launch(kernels::cross_entropy, logits, target, losses, Tensor(), rows, classes, options.ignore_index,
         options.label_smoothing);
  const double weight = row_weight(target, options);
  return record("cross_entropy", {input}, reduce(losses, weight), [=, logits = Saved(logits)](const Tensor& dy) {
    Tensor dx = empty_like(logits.get());
    launch(kernels::cross_entropy, logits.get(), target, empty_like(losses), dx, rows, classes, options.ignore_index,
           options.label_smoothing);
    const Factored scaled = multiply(dx, dy);
    launch(kernels::affine, scaled.x, dx, weight * scaled.factor, 0.0, dx.numel());
    input.accumulate(std::move(dx));
  });
}

Var linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, const Tensor& target_in,
                         const CrossEntropyOptions& options) {
  if (x.dim() != 2 || weight.dim() != 2 || x.size(1) != weight.size(1) || !(bias.shape() == Dims{weight.size(0)}))
    throw_error("[linear_cross_entropy] x {}, weight {} and bias {} do not fit", x.shape(), weight.shape(), bias.shape());
  const i64 rows = x.size(0), classes = weight.size(0);
  const Tensor target = target_in.contiguous();
  check("linear_cross_entropy", rows, classes, target, options);
  const Tensor logits({rows, classes}, x.dtype(), x.value().device());
  logits.copy_from(bias.value().expand(logits.shape()));
  matmul_into(x.value(), weight.value().transpose(0, 1), 1, logits);
  const Tensor losses({rows}, logits.dtype(), logits.device());
  const bool wanted = !NoGrad::active() && (x.requires_grad() || weight.requires_grad() || bias.requires_grad());
  launch(kernels::cross_entropy, logits, target, losses, wanted ? logits : Tensor(), rows, classes, options.ignore_index,
         options.label_smoothing);
  const double each = row_weight(target, options);
  return record("linear_cross_entropy", {x, weight, bias}, reduce(losses, each),
                [=, inputs = Saved(x.value()), w = Saved(weight.value()), dlogits = Saved(logits)](const Tensor& dy) {
                  const Factored scaled = multiply(dlogits.get(), dy);
                  const Tensor& g = scaled.x;
                  const double scale = each * scaled.factor;
                  x.accumulate_with([&](const Tensor& dx, double beta) { matmul_into(g, w.get(), beta, dx, scale); });
                  weight.accumulate_with(
                      [&](const Tensor& dw, double beta) { matmul_into(g.transpose(0, 1), inputs.get(), beta, dw, scale); });
                  if (const Tensor db = bias.gradient_to_add_to(); db.defined())
                    launch(kernels::add_strided, scale, g, g.strides(), db, db.expand(g.shape()).strides(), g.shape(), g.dim());
                });
}

SEQGRAD_CASES(cross_entropy) {
  const Tensor target = Tensor::from<i64>({2, 0, 4, 2}, {4});
  const CrossEntropyOptions ignoring{.ignore_index = 0}, smoothed{.ignore_index = 0, .label_smoothing = 0.1},
      summed{.reduction = Reduction::sum};
  cases.add("cross_entropy", [=](Var x) { return cross_entropy(x, target); }, {cases.normal({4, 5})}, {"logits"});
  cases.add("cross_entropy/ignore_index", [=](Var x) { return cross_entropy(x, target, ignoring); }, {cases.normal({4, 5})},
            {"logits"});
  cases.add("cross_entropy/label smoothing", [=](Var x) { return cross_entropy(x, target, smoothed); }, {cases.normal({4, 5})},
            {"logits"});
  cases.add("cross_entropy/sum", [=](Var x) { return cross_entropy(x, target, summed); }, {cases.normal({4, 5})}, {"logits"});
  cases.add("cross_entropy/transposed", [=](Var x) { return cross_entropy(transpose(x), target); }, {cases.normal({5, 4})},
            {"logits"});
  cases.add("linear_cross_entropy", [=](Var x, Var w, Var b) { return linear_cross_entropy(x, w, b, target, smoothed); },
            {cases.normal({4, 3}), cases.normal({5, 3}), cases.normal({5})}, {"x", "weight", "bias"});
}

}  // namespace seqgrad
