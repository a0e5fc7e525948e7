// The maximum along an axis, and its gradient.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

// A group looks through each contiguous row, a thread through each column.
template <class T>
void max_reduce(const T* x, T* y, i64* index, i64 outer, i64 n, i64 inner) {
  if (inner == 1)
    return each_row(outer, n, [=] __device__(const Group& group, i64 o) {
      const Ranked<T> best = group.largest(x + o * n, n, [](T, i64) { return true; });
      if (group.rank() > 0) return;
      y[o] = best.value;
      index[o] = best.index;
    });
  each_element(outer * inner, [=] __device__(i64 at) {
    const T* const column = x + at / inner * n * inner + at % inner;
    Ranked<T> best{column[0], 0};
    for (i64 r = 1; r < n; ++r) best = first_of(best, Ranked<T>{column[r * inner], r});
    y[at] = best.value;
    index[at] = best.index;
  });
}
SEQGRAD_INSTANTIATE(max_reduce)

template <class T>
void max_reduce_backward(const T* dy, const i64* index, T* dx, i64 outer, i64 n, i64 inner) {
  each_element(outer * inner, [=] __device__(i64 at) { dx[(at / inner * n + index[at]) * inner + at % inner] += dy[at]; });
}
SEQGRAD_INSTANTIATE(max_reduce_backward)

}  // namespace seqgrad::kernels::cuda
