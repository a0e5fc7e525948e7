// The softmax family, a row at a time in vectors, rows shared among the threads. Each row is summed in one fixed order.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  parallel_rows(rows, cols * 2, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T* x_r = x + r * cols;
      T* y_r = y + r * cols;
      const T total = exp_row(x_r, row_max(x_r, cols), y_r, cols);
      scale_row(y_r, 1 / total, cols);
    }
  });
}
SEQGRAD_INSTANTIATE(softmax)

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  parallel_rows(rows, cols, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T *y_r = y + r * cols, *dy_r = dy + r * cols;
      const Vec<T> dot(sum_row<T>(cols, [&](i64 i, auto lanes) { return lanes.load(y_r + i) * lanes.load(dy_r + i); }));
      T* dx_r = dx + r * cols;
      each<T>(0, cols, [&](i64 i, auto lanes) { lanes.store(dx_r + i, lanes.load(y_r + i) * (lanes.load(dy_r + i) - dot)); });
    }
  });
}
SEQGRAD_INSTANTIATE(softmax_backward)

template <class T>
void masked_softmax(const T* x, const bool* mask, T* y, i64 rows, i64 cols, i64 repeat) {
  parallel_rows(rows, cols * 2, [&](i64 begin, i64 end) {
    const T infinity = static_cast<T>(__builtin_inf());
    for (i64 r = begin; r < end; ++r) {
      const T* x_r = x + r * cols;
      T* y_r = y + r * cols;
      const bool* mask_r = mask + r / repeat * cols;
      bool any = false;
      Vec<T> largest_lanes(-infinity);
      each<T>(0, cols, [&](i64 i, auto lanes) {
        const Mask<T> keep = load_mask<T>(mask_r + i, lanes.count());
        any = any || bits(keep);
        largest_lanes = max(select(keep, lanes.load(x_r + i), Vec<T>(-infinity)), largest_lanes);
      });
      if (!any) {
        each<T>(0, cols, [&](i64 i, auto lanes) { lanes.store(y_r + i, Vec<T>(T(0))); });
        continue;
      }
      const Vec<T> shift(largest(largest_lanes));
      const T total = sum_row<T>(cols, [&](i64 i, auto lanes) {
        const Mask<T> keep = load_mask<T>(mask_r + i, lanes.count());
        const Vec<T> e = select(keep, exp(select(keep, lanes.load(x_r + i) - shift, Vec<T>(T(0)))), Vec<T>(T(0)));
        lanes.store(y_r + i, e);
        return e;
      });
      // Masked positions stay exactly 0 even where the total is NaN.
      const Vec<T> factor(1 / total);
      each<T>(0, cols, [&](i64 i, auto lanes) {
        const Mask<T> keep = load_mask<T>(mask_r + i, lanes.count());
        lanes.store(y_r + i, select(keep, lanes.load(y_r + i) * factor, Vec<T>(T(0))));
      });
    }
  });
}
SEQGRAD_INSTANTIATE(masked_softmax)

template <class T>
void log_softmax(const T* x, T* y, i64 rows, i64 cols) {
  if (cols == 0) return;
  parallel_rows(rows, cols * 2, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T* x_r = x + r * cols;
      T* y_r = y + r * cols;
      const Vec<T> shift(row_max(x_r, cols));
      const Vec<T> log_total(log_of(sum_row<T>(cols, [&](i64 i, auto lanes) { return exp(lanes.load(x_r + i) - shift); })));
      each<T>(0, cols, [&](i64 i, auto lanes) { lanes.store(y_r + i, lanes.load(x_r + i) - shift - log_total); });
    }
  });
}
SEQGRAD_INSTANTIATE(log_softmax)

template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, i64 rows, i64 cols) {
  parallel_rows(rows, cols * 2, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T *y_r = y + r * cols, *dy_r = dy + r * cols;
      const Vec<T> total(sum_row<T>(cols, [&](i64 i, auto lanes) { return lanes.load(dy_r + i); }));
      T* dx_r = dx + r * cols;
      each<T>(0, cols,
              [&](i64 i, auto lanes) { lanes.store(dx_r + i, lanes.load(dy_r + i) - exp(lanes.load(y_r + i)) * total); });
    }
  });
}
SEQGRAD_INSTANTIATE(log_softmax_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
