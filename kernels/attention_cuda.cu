// Additive attention scores with their gradient, and one look at the source for a search.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void additive_scores(const T* query, const T* keys, const T* v, T* score, i64 batch, i64 length, i64 dim) {
  each_row(batch * length, dim, [=] __device__(const Group& group, i64 at) {
    const T *const q = query + at / length * dim, *const key = keys + at * dim;
    const T sum = group.sum<T>(dim, [&](i64 k) { return v[k] * tanh(q[k] + key[k]); });
    if (group.rank() == 0) score[at] = sum;
  });
}
SEQGRAD_INSTANTIATE(additive_scores)

template <class T>
void additive_scores_backward(const T* query, const T* keys, const T* v, const T* dscore, T* dquery, T* dkeys, T* dv_rows,
                              i64 batch, i64 length, i64 dim) {
  each_element(batch * dim, [=] __device__(i64 at_q) {
    const i64 b = at_q / dim, k = at_q % dim;
    T dq = 0, dv = 0;
    for (i64 s = 0; s < length; ++s) {
      const i64 at = (b * length + s) * dim + k;
      const T a = tanh(query[at_q] + keys[at]), d = dscore[b * length + s];
      const T da = d * v[k] * (1 - a * a);
      dq += da;
      dkeys[at] += da;
      dv += d * a;
    }
    dquery[at_q] = dq;
    dv_rows[at_q] = dv;
  });
}
SEQGRAD_INSTANTIATE(additive_scores_backward)

// A block per row: its warps share the positions of the source.
template <class T>
void attend(const T* query, i64 ld_query, const T* keys, const T* v, T scale, const i64* first, const i64* lengths, T* weights,
            i64 ld_weights, i64 rows, i64 key_dim) {
  each_row_by_block(rows, [=] __device__(const Group& group, i64 r) {
    const Group one_warp = group.own_warp();
    const T* const q = query + r * ld_query;
    T* const weight = weights + r * ld_weights;
    const i64 length = lengths[r];
    for (i64 s = group.rank() / warp; s < length; s += warps_in_block) {
      const T* const key = keys ? keys + (first[r] + s) * key_dim : nullptr;
      const T score =
          one_warp.sum<T>(key ? key_dim : 0, [&](i64 k) { return v ? v[k] * tanh(q[k] + key[k]) : scale * q[k] * key[k]; });
      if (one_warp.rank() == 0) weight[s] = score;
    }
    group.sync();
    const T largest = group.max(length, -static_cast<T>(__builtin_huge_val()), [&](i64 s) { return weight[s]; });
    const T sum = group.sum<T>(length, [&](i64 s) { return weight[s] = exp(weight[s] - largest); });
    group.each(length, [&](i64 s) { weight[s] /= sum; });
  });
}
SEQGRAD_INSTANTIATE(attend)

template <class T>
void mix_rows(const T* weights, i64 ld_weights, const T* values, i64 ld_values, const i64* first, const i64* lengths,
              bool accumulate, T* y, i64 ld_y, i64 rows, i64 dim) {
  each_element(rows * dim, [=] __device__(i64 at) {
    const i64 r = at / dim, c = at % dim;
    T sum = accumulate ? y[r * ld_y + c] : T(0);
    for (i64 s = 0; s < lengths[r]; ++s) sum += weights[r * ld_weights + s] * values[(first[r] + s) * ld_values + c];
    y[r * ld_y + c] = sum;
  });
}
SEQGRAD_INSTANTIATE(mix_rows)

}  // namespace seqgrad::kernels::cuda
