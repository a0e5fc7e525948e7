// The softmax family, as its definitions; the largest x is subtracted so that no exponential overflows.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
static T maximum(const T* x, i64 n) {
  T result = x[0];
  for (i64 i = 1; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

template <class T>
void softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  for (i64 r = 0; r < rows; ++r, x += cols, y += cols) {
    const T largest = maximum(x, cols);
    T sum = 0;
    for (i64 i = 0; i < cols; ++i) sum += y[i] = exp(x[i] - largest);
    for (i64 i = 0; i < cols; ++i) y[i] /= sum;
  }
}
SEQGRAD_INSTANTIATE(softmax)

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  for (i64 r = 0; r < rows; ++r, y += cols, dy += cols, dx += cols) {
    T dot = 0;
    for (i64 i = 0; i < cols; ++i) dot += dy[i] * y[i];
    for (i64 i = 0; i < cols; ++i) dx[i] = y[i] * (dy[i] - dot);
  }
}
SEQGRAD_INSTANTIATE(softmax_backward)

template <class T>
void masked_softmax(const T* x, const bool* mask, T* y, i64 rows, i64 cols, i64 repeat) {
  for (i64 r = 0; r < rows; ++r, x += cols, y += cols) {
    const bool* keep = mask + r / repeat * cols;
    bool any = false;
    T largest = 0, sum = 0;
    for (i64 i = 0; i < cols; ++i) {
      if (keep[i]) largest = any && largest > x[i] ? largest : x[i];
      any = any || keep[i];
    }
    for (i64 i = 0; i < cols; ++i) sum += y[i] = keep[i] ? exp(x[i] - largest) : 0;
    for (i64 i = 0; i < cols; ++i) y[i] = keep[i] ? y[i] / sum : 0;
  }
}
SEQGRAD_INSTANTIATE(masked_softmax)

template <class T>
void log_softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  for (i64 r = 0; r < rows; ++r, x += cols, y += cols) {
    const T largest = maximum(x, cols);
    T sum = 0;
    for (i64 i = 0; i < cols; ++i) sum += exp(x[i] - largest);
    const T log_sum = log(sum);
    for (i64 i = 0; i < cols; ++i) y[i] = x[i] - largest - log_sum;
  }
}
SEQGRAD_INSTANTIATE(log_softmax)

template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  for (i64 r = 0; r < rows; ++r, y += cols, dy += cols, dx += cols) {
    T sum = 0;
    for (i64 i = 0; i < cols; ++i) sum += dy[i];
    for (i64 i = 0; i < cols; ++i) dx[i] = dy[i] - exp(y[i]) * sum;
  }
}
SEQGRAD_INSTANTIATE(log_softmax_backward)

// With s = smoothing: -sum_j q_j log p_j = -(1 - s) log p_target - s / cols sum_j log p_j.
template <class T>
void cross_entropy(const T* logits, const i64* target, T* loss, T* gradient, i64 rows, i64 cols, i64 ignore_index,
                   T smoothing) {
  for (i64 r = 0; r < rows; ++r, logits += cols) {
    T* dx = gradient ? gradient + r * cols : nullptr;
    if (target[r] == ignore_index || cols == 0) {
      loss[r] = 0;
      for (i64 i = 0; dx && i < cols; ++i) dx[i] = 0;
      continue;
    }
    const T largest = maximum(logits, cols);
    T sum = 0, sum_of_logits = 0;
    for (i64 i = 0; i < cols; ++i) {
      sum += exp(logits[i] - largest);
      sum_of_logits += logits[i] - largest;
    }
    const T log_sum = log(sum);
    const T log_p_target = logits[target[r]] - largest - log_sum;
    loss[r] = -(1 - smoothing) * log_p_target;
    if (smoothing != 0) loss[r] -= smoothing * (sum_of_logits / static_cast<T>(cols) - log_sum);
    for (i64 i = 0; dx && i < cols; ++i) {
      const T q = (i == target[r] ? 1 - smoothing : 0) + smoothing / static_cast<T>(cols);
      dx[i] = exp(logits[i] - largest) / sum - q;
    }
  }
}
SEQGRAD_INSTANTIATE(cross_entropy)

}  // namespace seqgrad::kernels::v1
