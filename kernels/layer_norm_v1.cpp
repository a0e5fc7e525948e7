// Layer normalisation, as its equations (ops.def).
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd, i64 rows, i64 cols, T eps) {
  for (i64 r = 0; r < rows; ++r, x += cols, y += cols) {
    T sum = 0, squares = 0;
    for (i64 i = 0; i < cols; ++i) sum += x[i];
    mean[r] = cols == 0 ? 0 : sum / static_cast<T>(cols);
    for (i64 i = 0; i < cols; ++i) squares += (x[i] - mean[r]) * (x[i] - mean[r]);
    const T variance = cols == 0 ? 0 : squares / static_cast<T>(cols);
    rstd[r] = 1 / sqrt(variance + eps);
    for (i64 i = 0; i < cols; ++i) {
      y[i] = (x[i] - mean[r]) * rstd[r] * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
    }
  }
}
SEQGRAD_INSTANTIATE(layer_norm)

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd, T* dx, T* dweight, T* dbias,
                         i64 rows, i64 cols) {
  for (i64 r = 0; r < rows; ++r, x += cols, dy += cols) {
    T sum_g = 0, sum_g_xh = 0;
    for (i64 i = 0; i < cols; ++i) {
      const T xh = (x[i] - mean[r]) * rstd[r];
      const T g = dy[i] * (weight ? weight[i] : 1);
      sum_g += g;
      sum_g_xh += g * xh;
      if (dweight) dweight[i] += dy[i] * xh;
      if (dbias) dbias[i] += dy[i];
    }
    for (i64 i = 0; dx && i < cols; ++i) {
      const T xh = (x[i] - mean[r]) * rstd[r];
      const T g = dy[i] * (weight ? weight[i] : 1);
      dx[r * cols + i] = rstd[r] * (g - sum_g / static_cast<T>(cols) - xh * (sum_g_xh / static_cast<T>(cols)));
    }
  }
}
SEQGRAD_INSTANTIATE(layer_norm_backward)

}  // namespace seqgrad::kernels::v1
