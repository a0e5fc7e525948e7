// score[b,s] = sum_k v_k tanh(query[b,k] + keys[b,s,k])      (Bahdanau, Cho, Bengio 2015, equation for the alignment model)
// With a = tanh(query + keys):  da = dscore v (1 - a^2);  dquery = sum_s da,  dkeys = da,  dv = sum_{b,s} dscore a
#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {

Var additive_scores(const Var& query, const Var& keys, const Var& v) {
  const Dims& shape = keys.shape();
  if (shape.size() != 3 || !(query.shape() == Dims{shape[0], shape[2]}) || !(v.shape() == Dims{shape[2]}))
    throw_error("[additive_scores] query {}, keys {} and v {} do not fit", query.shape(), keys.shape(), v.shape());
  const i64 batch = shape[0], length = shape[1], dim = shape[2];
  const Tensor q = query.value().contiguous(), k = keys.value().contiguous(), w = v.value().contiguous();
  const Tensor score({batch, length}, k.dtype(), k.device());
  launch(kernels::additive_scores, q, k, w, score, batch, length, dim);
  return record("additive_scores", {query, keys, v}, score,
                [=, q = Saved(q), k = Saved(k), w = Saved(w)](const Tensor& dscore) {
                  Tensor dquery = empty_like(q.get()), dv_rows({batch, dim}, k.get().dtype(), k.get().device());
                  Tensor dkeys = keys.gradient_to_add_to();
                  const bool direct = dkeys.defined() && dkeys.is_contiguous();
                  if (!direct) dkeys = zeros_like(k.get());
                  launch(kernels::additive_scores_backward, q.get(), k.get(), w.get(), dscore, dquery, dkeys, dv_rows, batch,
                         length, dim);
                  if (!direct) keys.accumulate(dkeys);
                  query.accumulate(std::move(dquery));
                  v.accumulate(sum_to(dv_rows, {dim}));
                });
}

SEQGRAD_CASES(additive_scores) {
  cases.add("additive_scores", additive_scores, {cases.normal({2, 3}), cases.normal({2, 4, 3}), cases.normal({3})},
            {"query", "keys", "v"});
  cases.add("additive_scores/one key", additive_scores, {cases.normal({1, 3}), cases.normal({1, 1, 3}), cases.normal({3})},
            {"query", "keys", "v"});
  cases.add("additive_scores/transposed",
            [](Var q, Var k, Var v) { return additive_scores(transpose(q), transpose(k, 0, 1), v); },
            {cases.normal({3, 2}), cases.normal({4, 2, 3}), cases.normal({3})}, {"query", "keys", "v"});
}

}  // namespace seqgrad
