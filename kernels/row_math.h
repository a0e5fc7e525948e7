// Sums, maxima and copies of one row in vectors, for *_cpu.cpp files. Thread-safe (values only).
#pragma once

#include "kernels/parallel.h"
#include "kernels/simd.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

SEQGRAD_INLINE float log_of(float x) { return __builtin_logf(x); }
SEQGRAD_INLINE double log_of(double x) { return __builtin_log(x); }
SEQGRAD_INLINE float sqrt_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
SEQGRAD_INLINE double sqrt_of(double x) { return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(x))); }

// The sum over i < n of f(i, lanes). Four running vectors hide the latency of additions and keep rounding errors small.
template <class T, class F>
SEQGRAD_INLINE T sum_row(i64 n, F&& f) {
  constexpr i64 w = Vec<T>::width;
  const AllLanes<T> all;
  Vec<T> s0(T(0)), s1(T(0)), s2(T(0)), s3(T(0));
  i64 i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    s0 += f(i, all);
    s1 += f(i + w, all);
    s2 += f(i + 2 * w, all);
    s3 += f(i + 3 * w, all);
  }
  each<T>(i, n, [&](i64 j, auto lanes) { s0 += lanes.keep(f(j, lanes), T(0)); });
  return sum((s0 + s1) + (s2 + s3));
}

// The largest of n >= 1 elements; where there are NaNs, any element.
template <class T>
SEQGRAD_INLINE T row_max(const T* x, i64 n) {
  constexpr i64 w = Vec<T>::width;
  Vec<T> m0(x[0]), m1 = m0, m2 = m0, m3 = m0;
  i64 i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    m0 = max(m0, Vec<T>::load(x + i));
    m1 = max(m1, Vec<T>::load(x + i + w));
    m2 = max(m2, Vec<T>::load(x + i + 2 * w));
    m3 = max(m3, Vec<T>::load(x + i + 3 * w));
  }
  each<T>(i, n, [&](i64 j, auto lanes) { m0 = max(m0, lanes.keep(lanes.load(x + j), x[0])); });
  return largest(max(max(m0, m1), max(m2, m3)));
}

// y_i = exp(x_i - shift); returns their sum. y may be x.
template <class T>
SEQGRAD_INLINE T exp_row(const T* x, T shift, T* y, i64 n) {
  return sum_row<T>(n, [&](i64 i, auto lanes) {
    const Vec<T> e = exp(lanes.load(x + i) - Vec<T>(shift));
    lanes.store(y + i, e);
    return e;
  });
}

template <class T>
SEQGRAD_INLINE void copy_row(const T* x, T* y, i64 n) {
  each<T>(0, n, [&](i64 i, auto lanes) { lanes.store(y + i, lanes.load(x + i)); });
}

// x[0..n) = 0; nothing for a null x.
template <class T>
SEQGRAD_INLINE void clear_row(T* x, i64 n) {
  if (x) each<T>(0, n, [&](i64 i, auto lanes) { lanes.store(x + i, Vec<T>(T(0))); });
}

template <class T>
SEQGRAD_INLINE void scale_row(T* y, T factor, i64 n) {
  each<T>(0, n, [&](i64 i, auto lanes) { lanes.store(y + i, lanes.load(y + i) * Vec<T>(factor)); });
}

// What a product is added to: y = bias, y + bias or, without a bias, zeros; n elements.
template <class T>
SEQGRAD_INLINE void start_row(const T* bias, bool accumulate, T* y, i64 n) {
  if (!bias) return clear_row(y, n);
  each<T>(0, n, [&](i64 j, auto lanes) {
    const Vec<T> b = lanes.load(bias + j);
    lanes.store(y + j, accumulate ? lanes.load(y + j) + b : b);
  });
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
