// Additive attention scores in vectors. The tanh dominates, so the backward recomputes it rather than store (B,S,K) values.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void additive_scores(const T* query, const T* keys, const T* v, T* score, i64 batch, i64 length, i64 dim) {
  parallel_rows(batch * length, dim * 4, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *q = query + row / length * dim, *key = keys + row * dim;
      score[row] =
          sum_row<T>(dim, [&](i64 k, auto lanes) { return lanes.load(v + k) * tanh(lanes.load(q + k) + lanes.load(key + k)); });
    }
  });
}
SEQGRAD_INSTANTIATE(additive_scores)

template <class T>
void additive_scores_backward(const T* query, const T* keys, const T* v, const T* dscore, T* dquery, T* dkeys, T* dv_rows,
                              i64 batch, i64 length, i64 dim) {
  parallel_rows(batch, length * dim * 4, [&](i64 begin, i64 end) {
    for (i64 b = begin; b < end; ++b) {
      each<T>(0, dim, [&](i64 k, auto lanes) {
        const Vec<T> q = lanes.load(query + b * dim + k), v_k = lanes.load(v + k), one(T(1));
        Vec<T> dq(T(0)), dv(T(0));
        for (i64 row = b * length; row < (b + 1) * length; ++row) {
          const i64 at = row * dim + k;
          const Vec<T> a = tanh(q + lanes.load(keys + at)), d(dscore[row]);
          const Vec<T> da = d * v_k * (one - a * a);
          lanes.store(dkeys + at, lanes.load(dkeys + at) + da);
          dq += da;
          dv = fma(d, a, dv);
        }
        lanes.store(dquery + b * dim + k, dq);
        lanes.store(dv_rows + b * dim + k, dv);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(additive_scores_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
