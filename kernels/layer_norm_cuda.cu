// Layer normalisation and its gradient.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd, i64 rows, i64 cols, T eps) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const T* const from = x + r * cols;
    const T n = static_cast<T>(cols > 0 ? cols : 1);
    const T m = group.sum<T>(cols, [&](i64 i) { return from[i]; }) / n;
    const T variance = group.sum<T>(cols, [&](i64 i) { return (from[i] - m) * (from[i] - m); }) / n;
    const T s = 1 / sqrt(variance + eps);
    group.each(cols,
               [&](i64 i) { y[r * cols + i] = (from[i] - m) * s * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0)); });
    if (group.rank() > 0) return;
    mean[r] = m;
    rstd[r] = s;
  });
}
SEQGRAD_INSTANTIATE(layer_norm)

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd, T* dx, T* dweight, T* dbias,
                         i64 rows, i64 cols) {
  // The columns first, for dx may be dy.
  if (dweight)
    sum_columns(
        cols, rows, [=] __device__(i64 i, i64 r) { return dy[r * cols + i] * ((x[r * cols + i] - mean[r]) * rstd[r]); },
        [=] __device__(i64 i, double total) { dweight[i] += static_cast<T>(total); });
  if (dbias)
    sum_columns(
        cols, rows, [=] __device__(i64 i, i64 r) { return dy[r * cols + i]; },
        [=] __device__(i64 i, double total) { dbias[i] += static_cast<T>(total); });
  if (!dx) return;
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const auto xh = [&](i64 i) { return (x[r * cols + i] - mean[r]) * rstd[r]; };
    const auto g = [&](i64 i) { return dy[r * cols + i] * (weight ? weight[i] : T(1)); };
    const T n = static_cast<T>(cols);
    const T mean_g = group.sum<T>(cols, [&](i64 i) { return g(i); }) / n;
    const T mean_g_xh = group.sum<T>(cols, [&](i64 i) { return g(i) * xh(i); }) / n;
    group.each(cols, [&](i64 i) { dx[r * cols + i] = rstd[r] * (g(i) - mean_g - xh(i) * mean_g_xh); });
  });
}
SEQGRAD_INSTANTIATE(layer_norm_backward)

}  // namespace seqgrad::kernels::cuda
