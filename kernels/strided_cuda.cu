// Copies and sums over any strides, and the norm for clipping.
#include "kernels/clip.h"
#include "kernels/cuda_walk.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void copy_strided(const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  const Walk at = walk(shape, x_strides, y_strides, ndim).merged();
  each_element(at.elements(), [=] __device__(i64 i) {
    i64 at_x, at_y;
    at.find(i, at_x, at_y);
    y[at_y] = x[at_x];
  });
}
SEQGRAD_INSTANTIATE(copy_strided)

// y has an element for each place along the axes through which it steps; x is summed over the others.
template <class T>
void add_strided(T alpha, const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  const Walk all = walk(shape, x_strides, y_strides, ndim);
  if (all.elements() == 0) return;
  const Walk outputs = all.where([](i64, i64 y_stride) { return y_stride != 0; }).merged();
  const Walk summed = all.where([](i64, i64 y_stride) { return y_stride == 0; }).merged();
  const auto term = [=] __device__(i64 o, i64 r) {
    i64 at_x, at_y, more, none;
    outputs.find(o, at_x, at_y);
    summed.find(r, more, none);
    return x[at_x + more];
  };
  const auto finish = [=] __device__(i64 o, double total) {
    i64 at_x, at_y;
    outputs.find(o, at_x, at_y);
    y[at_y] += alpha * static_cast<T>(total);
  };
  const auto step = [](const Walk& walk) { return walk.count ? walk.p[walk.count - 1] : 1; };
  if (summed.count == 0 || (outputs.count > 0 && step(outputs) < step(summed)))
    sum_columns(outputs.elements(), summed.elements(), term, finish);
  else
    sum_rows(outputs.elements(), summed.elements(), term, finish);
}
SEQGRAD_INSTANTIATE(add_strided)

template <class T>
void norm_and_clip(const T* x, i64 n, double max_norm, double* result) {
  sum_rows(
      1, n, [=] __device__(i64, i64 i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); },
      [=] __device__(i64, double sum) {
        result[0] = sqrt(sum);
        result[1] = clip_coefficient(result[0], max_norm);
      });
}
SEQGRAD_INSTANTIATE(norm_and_clip)

}  // namespace seqgrad::kernels::cuda
