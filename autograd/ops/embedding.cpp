// y[i] = weight[ids[i]];  dweight[ids[i]] += dy[i], except for padding_idx
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

Var embedding(const Var& weight, const Tensor& ids_in, i64 padding_idx) {
  if (weight.dim() != 2) throw_error("[embedding] needs a table of shape (V, E), not {}", weight.shape());
  const Tensor ids = ids_in.contiguous();
  const i64 rows = weight.size(0), dim = weight.size(1), n = ids.numel();
  const i64* id = ids.data<i64>();
  for (i64 i = 0; i < n; ++i)
    if (id[i] < 0 || id[i] >= rows)
      throw_error("[embedding] id {} at position {} is outside a table of {} rows", id[i], i, rows);
  Dims shape = ids.shape();
  shape.push_back(dim);
  const Tensor y(shape, weight.dtype(), weight.value().device());
  launch(kernels::gather_rows, weight.value().contiguous(), ids, y, n, dim);
  return record("embedding", {weight}, y, [=](const Tensor& dy) {
    const Tensor dweight = weight.gradient_to_add_to();
    if (dweight.is_contiguous()) {
      launch(kernels::scatter_add_rows, dy, ids, dweight, n, dim, padding_idx);
    } else {
      const Tensor sum = zeros_like(dweight);
      launch(kernels::scatter_add_rows, dy, ids, sum, n, dim, padding_idx);
      weight.accumulate(sum);
    }
  });
}

SEQGRAD_CASES(embedding) {
  const Tensor ids = Tensor::from<i64>({1, 3, 0, 1, 2, 0}, {2, 3});
  cases.add("embedding", [=](Var w) { return embedding(w, ids); }, {cases.normal({4, 3})}, {"weight"});
  cases.add("embedding/transposed", [=](Var w) { return embedding(transpose(w), ids); }, {cases.normal({3, 4})}, {"weight"});
}

}  // namespace seqgrad
