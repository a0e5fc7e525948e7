// Moving and reducing, as their definitions.
#include <math.h>

#include "kernels/clip.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void fill(T* x, T value, i64 n) {
  for (i64 i = 0; i < n; ++i) x[i] = value;
}
SEQGRAD_INSTANTIATE(fill)

template <class T>
void affine(const T* x, T* y, T alpha, T beta, i64 n) {
  for (i64 i = 0; i < n; ++i) y[i] = alpha * x[i] + beta;
}
SEQGRAD_INSTANTIATE(affine)

template <class T>
void copy_strided(const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  if (ndim == 0) {
    *y = *x;
    return;
  }
  for (i64 i = 0; i < shape[0]; ++i) {
    copy_strided(x + i * x_strides[0], x_strides + 1, y + i * y_strides[0], y_strides + 1, shape + 1, ndim - 1);
  }
}
SEQGRAD_INSTANTIATE(copy_strided)

// The sum of x over the axes along which y stands still. In double, which keeps a long sum of floats exact enough.
template <class T>
static double sum_reduced(const T* x, const i64* x_strides, const i64* y_strides, const i64* shape, i64 ndim) {
  if (ndim == 0) return *x;
  const i64 extent = y_strides[0] == 0 ? shape[0] : 1;
  double sum = 0;
  for (i64 i = 0; i < extent; ++i) sum += sum_reduced(x + i * x_strides[0], x_strides + 1, y_strides + 1, shape + 1, ndim - 1);
  return sum;
}

template <class T>
void add_strided(T alpha, const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  const auto visit = [&](const auto& self, i64 axis, const T* x_at, T* y_at) -> void {
    if (axis == ndim) {
      *y_at += alpha * static_cast<T>(sum_reduced(x_at, x_strides, y_strides, shape, ndim));
      return;
    }
    const i64 extent = y_strides[axis] == 0 ? 1 : shape[axis];
    for (i64 i = 0; i < extent; ++i) self(self, axis + 1, x_at + i * x_strides[axis], y_at + i * y_strides[axis]);
  };
  visit(visit, 0, x, y);
}
SEQGRAD_INSTANTIATE(add_strided)

template <class T>
void max_reduce(const T* x, T* y, i64* index, i64 outer, i64 n, i64 inner) {
  for (i64 o = 0; o < outer; ++o) {
    for (i64 i = 0; i < inner; ++i) {
      i64 best = 0;
      T best_value = x[o * n * inner + i];
      for (i64 r = 1; r < n; ++r) {
        const T value = x[(o * n + r) * inner + i];
        const bool new_nan = value != value && best_value == best_value;
        if (value > best_value || new_nan) {
          best = r;
          best_value = value;
        }
      }
      y[o * inner + i] = best_value;
      index[o * inner + i] = best;
    }
  }
}
SEQGRAD_INSTANTIATE(max_reduce)

template <class T>
void max_reduce_backward(const T* dy, const i64* index, T* dx, i64 outer, i64 n, i64 inner) {
  for (i64 o = 0; o < outer; ++o) {
    for (i64 i = 0; i < inner; ++i) dx[(o * n + index[o * inner + i]) * inner + i] += dy[o * inner + i];
  }
}
SEQGRAD_INSTANTIATE(max_reduce_backward)

template <class T>
void norm_and_clip(const T* x, i64 n, double max_norm, double* result) {
  double sum = 0;
  for (i64 i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  result[0] = sqrt(sum);
  result[1] = clip_coefficient(result[0], max_norm);
}
SEQGRAD_INSTANTIATE(norm_and_clip)

}  // namespace seqgrad::kernels::v1
