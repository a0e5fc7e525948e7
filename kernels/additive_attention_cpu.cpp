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
      const T* const q = query + b * dim;
      T *const dq = dquery + b * dim, *const dv = dv_rows + b * dim;
      clear_row(dq, dim);
      clear_row(dv, dim);
      for (i64 row = b * length; row < (b + 1) * length; ++row) {  // along the rows of keys, as the memory is fastest
        const T* const key = keys + row * dim;
        T* const dkey = dkeys + row * dim;
        const Vec<T> d(dscore[row]), one(T(1));
        each<T>(0, dim, [&](i64 k, auto lanes) {
          const Vec<T> a = tanh(lanes.load(q + k) + lanes.load(key + k)), da = d * lanes.load(v + k) * (one - a * a);
          lanes.store(dkey + k, lanes.load(dkey + k) + da);
          lanes.store(dq + k, lanes.load(dq + k) + da);
          lanes.store(dv + k, fma(d, a, lanes.load(dv + k)));
        });
      }
    }
  });
}
SEQGRAD_INSTANTIATE(additive_scores_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
