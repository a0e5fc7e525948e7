// The maximum along an axis, and its gradient.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// The first i for which found(i, lanes) has a lane, or n.
template <class T, class F>
static i64 first_where(i64 n, F&& found) {
  for (i64 i = 0; i < n; i += Vec<T>::width) {
    unsigned hits;
    if (i + Vec<T>::width <= n) {
      hits = bits(found(i, AllLanes<T>()));
    } else {
      hits = bits(found(i, FirstLanes<T>(n - i))) & ((1u << (n - i)) - 1);
    }
    if (hits) return i + __builtin_ctz(hits);
  }
  return n;
}

// Along a contiguous row: the value first, then where it is.
template <class T>
static i64 index_of_max(const T* x, i64 n) {
  const i64 nan = first_where<T>(n, [&](i64 i, auto lanes) { return is_nan(lanes.load(x + i)); });
  if (nan < n) return nan;
  const Vec<T> best(row_max(x, n));
  return first_where<T>(n, [&](i64 i, auto lanes) { return lanes.load(x + i) == best; });
}

template <class T>
void max_reduce(const T* x, T* y, i64* index, i64 outer, i64 n, i64 inner) {
  parallel_rows(outer, n * inner, [&](i64 begin, i64 end) {
    for (i64 o = begin; o < end; ++o) {
      const T* x_o = x + o * n * inner;
      if (inner == 1) {
        index[o] = index_of_max(x_o, n);
        y[o] = x_o[index[o]];
        continue;
      }
      each<T>(0, inner, [&](i64 i, auto lanes) {
        Vec<T> best = lanes.load(x_o + i);
        i64* index_oi = index + o * inner + i;
        for (i64 j = 0; j < lanes.count(); ++j) index_oi[j] = 0;
        for (i64 r = 1; r < n; ++r) {
          const Vec<T> x_r = lanes.load(x_o + r * inner + i);
          // Greater, or the first NaN.
          const Mask<T> better = (x_r > best) | is_nan(select(best == best, x_r, Vec<T>(T(0))));
          best = select(better, x_r, best);
          unsigned hits = bits(better) & ((1u << lanes.count()) - 1);
          for (; hits; hits &= hits - 1) index_oi[__builtin_ctz(hits)] = r;
        }
        lanes.store(y + o * inner + i, best);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(max_reduce)

template <class T>
void max_reduce_backward(const T* dy, const i64* index, T* dx, i64 outer, i64 n, i64 inner) {
  parallel_rows(outer, inner, [&](i64 begin, i64 end) {
    for (i64 o = begin; o < end; ++o) {
      for (i64 i = 0; i < inner; ++i) dx[(o * n + index[o * inner + i]) * inner + i] += dy[o * inner + i];
    }
  });
}
SEQGRAD_INSTANTIATE(max_reduce_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
