// The softmax family: one group of threads per row.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
constexpr T least = -static_cast<T>(__builtin_huge_val());

template <class T>
void softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const T* const from = x + r * cols;
    T* const to = y + r * cols;
    const T largest = group.max(cols, least<T>, [&](i64 i) { return from[i]; });
    const T sum = group.sum<T>(cols, [&](i64 i) { return to[i] = exp(from[i] - largest); });
    group.each(cols, [&](i64 i) { to[i] /= sum; });
  });
}
SEQGRAD_INSTANTIATE(softmax)

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const i64 at = r * cols;
    const T dot = group.sum<T>(cols, [&](i64 i) { return dy[at + i] * y[at + i]; });
    group.each(cols, [&](i64 i) { dx[at + i] = y[at + i] * (dy[at + i] - dot); });
  });
}
SEQGRAD_INSTANTIATE(softmax_backward)

template <class T>
void masked_softmax(const T* x, const bool* mask, T* y, i64 rows, i64 cols, i64 repeat) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const bool* const keep = mask + r / repeat * cols;
    const T* const from = x + r * cols;
    T* const to = y + r * cols;
    const T largest = group.max(cols, least<T>, [&](i64 i) { return keep[i] ? from[i] : least<T>; });
    const T sum = group.sum<T>(cols, [&](i64 i) { return to[i] = keep[i] ? exp(from[i] - largest) : T(0); });
    group.each(cols, [&](i64 i) { to[i] = keep[i] ? to[i] / sum : T(0); });
  });
}
SEQGRAD_INSTANTIATE(masked_softmax)

template <class T>
void log_softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const T* const from = x + r * cols;
    const T largest = group.max(cols, least<T>, [&](i64 i) { return from[i]; });
    const T log_sum = log(group.sum<T>(cols, [&](i64 i) { return exp(from[i] - largest); }));
    group.each(cols, [&](i64 i) { y[r * cols + i] = from[i] - largest - log_sum; });
  });
}
SEQGRAD_INSTANTIATE(log_softmax)

template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const i64 at = r * cols;
    const T sum = group.sum<T>(cols, [&](i64 i) { return dy[at + i]; });
    group.each(cols, [&](i64 i) { dx[at + i] = dy[at + i] - exp(y[at + i]) * sum; });
  });
}
SEQGRAD_INSTANTIATE(log_softmax_backward)

// With s = smoothing, d_j = x_j - max x, Z = sum_j exp d_j:
//   loss = log Z - (1 - s) d_target - s mean_j d_j;   gradient_j = exp(d_j) / Z - s / cols - (1 - s) [j = target]
template <class T>
void cross_entropy(const T* logits, const i64* target, T* loss, T* gradient, i64 rows, i64 cols, i64 ignore_index,
                   T smoothing) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const T* const x = logits + r * cols;
    T* const dx = gradient ? gradient + r * cols : nullptr;
    const i64 word = target[r];
    if (word == ignore_index || cols == 0) {
      if (group.rank() == 0) loss[r] = 0;
      if (dx) group.each(cols, [&](i64 i) { dx[i] = 0; });
      return;
    }
    const T largest = group.max(cols, least<T>, [&](i64 i) { return x[i]; });
    const T d_target = x[word] - largest;
    // Without smoothing an infinite logit would turn 0 times infinity into NaN.
    const T mean_d = smoothing == 0 ? T(0) : group.sum<T>(cols, [&](i64 i) { return x[i] - largest; }) / static_cast<T>(cols);
    group.sync();  // x[word] has been read by all before dx, which may be x, is written
    const T z = group.sum<T>(cols, [&](i64 i) {
      const T e = exp(x[i] - largest);
      if (dx) dx[i] = e;
      return e;
    });
    if (group.rank() == 0) loss[r] = log(z) - (1 - smoothing) * d_target - (smoothing == 0 ? T(0) : smoothing * mean_d);
    if (dx)
      group.each(cols,
                 [&](i64 i) { dx[i] = dx[i] / z - smoothing / static_cast<T>(cols) - (i == word ? 1 - smoothing : T(0)); });
  });
}
SEQGRAD_INSTANTIATE(cross_entropy)

}  // namespace seqgrad::kernels::cuda
