// softmax over the last axis: y_i = exp(x_i - max x) / sum_j exp(x_j - max x)
//   dx = y (dy - sum(dy y)), the product with the Jacobian diag(y) - y yT
// masked_softmax: the same over the positions that are true, exactly 0 elsewhere; so its gradient is the same formula.
// log_softmax: y_i = x_i - log sum_j exp x_j;  dx = dy - exp(y) sum(dy)
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {
namespace {

i64 columns(const char* op, const Tensor& x) {
  if (x.dim() == 0) throw_error("[{}] needs at least one dimension", op);
  return x.size(-1);
}

i64 rows_of(const Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

template <class Backward>
Var record_softmax(const char* op, const Var& x, const Tensor& y, const Backward& backward) {
  return record(op, {x}, y, [x, backward](const Tensor& dy, const SavedVar& y) {
    Tensor dx = empty_like(dy);
    launch(backward, y.value(), dy, dx, rows_of(dx), dx.size(-1));
    x.accumulate(std::move(dx));
  });
}

}  // namespace

Var softmax(const Var& input) {
  const Tensor x = input.value().contiguous();
  const i64 cols = columns("softmax", x);
  const Tensor y = empty_like(x);
  launch(kernels::softmax, x, y, rows_of(x), cols);
  return record_softmax("softmax", input, y, kernels::softmax_backward);
}

Var log_softmax(const Var& input) {
  const Tensor x = input.value().contiguous();
  const i64 cols = columns("log_softmax", x);
  const Tensor y = empty_like(x);
  launch(kernels::log_softmax, x, y, rows_of(x), cols);
  return record_softmax("log_softmax", input, y, kernels::log_softmax_backward);
}

Var masked_softmax(const Var& input, const Tensor& mask) {
  const Tensor x = input.value().contiguous();
  const i64 cols = columns("masked_softmax", x);
  Dims expected = x.shape();
  const bool shared = x.dim() == 3 && mask.dim() == 2;
  if (shared) expected = {x.size(0), cols};
  if (mask.dtype() != DType::boolean || !(mask.shape() == expected))
    throw_error("[masked_softmax] scores {} need a bool mask of shape {}, not {} {}", x.shape(), expected,
                name_of(mask.dtype()), mask.shape());
  const Tensor y = empty_like(x);
  launch(kernels::masked_softmax, x, mask.contiguous(), y, rows_of(x), cols, shared ? x.size(1) : i64{1});
  return record_softmax("masked_softmax", input, y, kernels::softmax_backward);
}

SEQGRAD_CASES(softmax) {
  const Tensor mask = Tensor::from<bool>({true, true, false, false, true, true, true, false, false, false}, {2, 5});
  const Tensor one_row_empty = Tensor::from<bool>({false, false, false, true, false, true}, {2, 3});
  cases.add("softmax", softmax, {cases.normal({3, 5})});
  cases.add("softmax/transposed", [](Var x) { return softmax(transpose(x)); }, {cases.normal({3, 5})});
  cases.add("softmax/one column", softmax, {cases.normal({3, 1})});
  cases.add("log_softmax", log_softmax, {cases.normal({2, 3, 4})});
  cases.add("masked_softmax", [=](Var x) { return masked_softmax(x, mask); }, {cases.normal({2, 5})});
  cases.add("masked_softmax/shared by queries", [=](Var x) { return masked_softmax(x, mask); }, {cases.normal({2, 3, 5})});
  cases.add("masked_softmax/empty row", [=](Var x) { return masked_softmax(x, one_row_empty); }, {cases.normal({2, 3})});
}

}  // namespace seqgrad
