// Layer normalisation in vectors.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* rstd, i64 rows, i64 cols, T eps) {
  const T inverse = cols > 0 ? 1 / static_cast<T>(cols) : 0;
  parallel_rows(rows, cols, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T* x_r = x + r * cols;
      T* y_r = y + r * cols;
      const T mean_r = inverse * sum_row<T>(cols, [&](i64 i, auto lanes) { return lanes.load(x_r + i); });
      const Vec<T> center(mean_r);
      const T variance = inverse * sum_row<T>(cols, [&](i64 i, auto lanes) {
                           const Vec<T> d = lanes.load(x_r + i) - center;
                           return d * d;
                         });
      const T rstd_r = 1 / sqrt_of(variance + eps);
      const Vec<T> scale(rstd_r), one(T(1)), zero(T(0));
      each<T>(0, cols, [&](i64 i, auto lanes) {
        const Vec<T> w = weight ? lanes.load(weight + i) : one, b = bias ? lanes.load(bias + i) : zero;
        lanes.store(y_r + i, fma((lanes.load(x_r + i) - center) * scale, w, b));
      });
      mean[r] = mean_r;
      rstd[r] = rstd_r;
    }
  });
}
SEQGRAD_INSTANTIATE(layer_norm)

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd, T* dx, T* dweight, T* dbias,
                         i64 rows, i64 cols) {
  // The sums over rows first, as dx may be dy: threads share the columns, so that each sum has one order.
  if (dweight || dbias) {
    constexpr i64 chunk = 4 * Vec<T>::width;
    const i64 chunks = ceil_divide(cols, chunk);
    parallel_rows(chunks, rows * chunk, [&](i64 begin, i64 end) {
      each<T>(begin * chunk, smaller(end * chunk, cols), [&](i64 i, auto lanes) {
        Vec<T> dw(T(0)), db(T(0));
        for (i64 r = 0; r < rows; ++r) {
          const Vec<T> g = lanes.load(dy + r * cols + i);
          dw = fma(g, (lanes.load(x + r * cols + i) - Vec<T>(mean[r])) * Vec<T>(rstd[r]), dw);
          db += g;
        }
        if (dweight) lanes.store(dweight + i, lanes.load(dweight + i) + dw);
        if (dbias) lanes.store(dbias + i, lanes.load(dbias + i) + db);
      });
    });
  }
  if (!dx) return;
  const T inverse = cols > 0 ? 1 / static_cast<T>(cols) : 0;
  parallel_rows(rows, cols, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T *dy_r = dy + r * cols, *x_r = x + r * cols;
      T* dx_r = dx + r * cols;
      const Vec<T> center(mean[r]), scale(rstd[r]);
      const auto g_at = [&](i64 i, auto lanes) {
        return weight ? lanes.load(dy_r + i) * lanes.load(weight + i) : lanes.load(dy_r + i);
      };
      const auto xh_at = [&](i64 i, auto lanes) { return (lanes.load(x_r + i) - center) * scale; };
      const Vec<T> mean_g(inverse * sum_row<T>(cols, g_at));
      const Vec<T> mean_g_xh(inverse * sum_row<T>(cols, [&](i64 i, auto lanes) { return g_at(i, lanes) * xh_at(i, lanes); }));
      each<T>(0, cols, [&](i64 i, auto lanes) {
        lanes.store(dx_r + i, scale * (g_at(i, lanes) - mean_g - xh_at(i, lanes) * mean_g_xh));
      });
    }
  });
}
SEQGRAD_INSTANTIATE(layer_norm_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
