// Cross-entropy with label smoothing: value and gradient in three passes over a row that stays in cache.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// With s = smoothing, d_j = x_j - max x, Z = sum_j exp d_j:
//   loss = log Z - (1 - s) d_target - s mean_j d_j;   gradient_j = exp(d_j) / Z - s / cols - (1 - s) [j = target]
template <class T>
static T cross_entropy_row(const T* x, i64 target, T* gradient, i64 cols, T smoothing) {
  const T shift = row_max(x, cols);
  const T d_target = x[target] - shift;
  T mean_d = 0;
  if (smoothing != 0) {  // else an infinite logit would turn 0 times infinity into NaN
    mean_d = sum_row<T>(cols, [&](i64 i, auto lanes) { return lanes.load(x + i) - Vec<T>(shift); }) / static_cast<T>(cols);
  }
  T z;
  if (gradient) {
    z = exp_row(x, shift, gradient, cols);
    const Vec<T> factor(1 / z), uniform(smoothing / static_cast<T>(cols));
    each<T>(0, cols, [&](i64 i, auto lanes) { lanes.store(gradient + i, lanes.load(gradient + i) * factor - uniform); });
    gradient[target] -= 1 - smoothing;
  } else {
    z = sum_row<T>(cols, [&](i64 i, auto lanes) { return exp(lanes.load(x + i) - Vec<T>(shift)); });
  }
  T loss = log_of(z) - (1 - smoothing) * d_target;
  if (smoothing != 0) loss -= smoothing * mean_d;
  return loss;
}

template <class T>
void cross_entropy(const T* logits, const i64* target, T* loss, T* gradient, i64 rows, i64 cols, i64 ignore_index,
                   T smoothing) {
  parallel_rows(rows, cols * 2, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      T* gradient_r = gradient ? gradient + r * cols : nullptr;
      if (target[r] != ignore_index && cols > 0) {
        loss[r] = cross_entropy_row(logits + r * cols, target[r], gradient_r, cols, smoothing);
        continue;
      }
      loss[r] = 0;
      if (gradient) each<T>(0, cols, [&](i64 i, auto lanes) { lanes.store(gradient_r + i, Vec<T>(T(0))); });
    }
  });
}
SEQGRAD_INSTANTIATE(cross_entropy)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
