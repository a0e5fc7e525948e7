// Optimiser steps and the norm for clipping: single passes over one block, bound by memory.
#include "kernels/clip.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// Rounds subnormal numbers to 0 while in scope. The moments of rows that get no gradient decay into them within some hundred
// steps, and many processors compute them a hundred times slower.
class FlushSubnormals {
 public:
  FlushSubnormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }  // flush-to-zero and denormals-are-zero
  ~FlushSubnormals() { _mm_setcsr(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
  unsigned saved_;
};

template <class T>
void sgd_step(T* w, const T* g, T* velocity, i64 n, T lr, T momentum, const double* scale) {
  const double factor = scale ? *scale : 1;
  if (factor != factor) return;
  parallel(n, grain, [&](i64 begin, i64 end) {
    const FlushSubnormals flush;
    each<T>(begin, end, [&](i64 i, auto lanes) {
      Vec<T> step = Vec<T>(static_cast<T>(factor)) * lanes.load(g + i);
      if (velocity) {
        step = fma(Vec<T>(momentum), lanes.load(velocity + i), step);
        lanes.store(velocity + i, step);
      }
      lanes.store(w + i, lanes.load(w + i) - Vec<T>(lr) * step);
    });
  });
}
SEQGRAD_INSTANTIATE(sgd_step)

template <class T>
void adam_step(T* w, const T* g, T* m, T* v, i64 n, double lr, double beta1, double beta2, double eps, double correction1,
               double correction2, const double* scale) {
  const double multiple = scale ? *scale : 1;
  if (multiple != multiple) return;
  parallel(n, grain, [&](i64 begin, i64 end) {
    const FlushSubnormals flush;
    const auto all = [](double x) { return Vec<T>(static_cast<T>(x)); };
    const Vec<T> b1 = all(beta1), b2 = all(beta2), c1 = all(1 - beta1), c2 = all(1 - beta2), factor = all(multiple);
    const Vec<T> rate = all(lr / correction1), inverse2 = all(1 / correction2), epsilon = all(eps);
    each<T>(begin, end, [&](i64 i, auto lanes) {
      const Vec<T> gradient = factor * lanes.load(g + i);
      const Vec<T> m_i = fma(b1, lanes.load(m + i), c1 * gradient);
      const Vec<T> v_i = fma(b2, lanes.load(v + i), c2 * gradient * gradient);
      lanes.store(m + i, m_i);
      lanes.store(v + i, v_i);
      lanes.store(w + i, lanes.load(w + i) - rate * m_i / (sqrt(v_i * inverse2) + epsilon));
    });
  });
}
SEQGRAD_INSTANTIATE(adam_step)

// Squares as doubles: a vector of floats is two of doubles.
SEQGRAD_INLINE static Vec<double> squares(const double* x) {
  const Vec<double> a = Vec<double>::load(x);
  return a * a;
}
SEQGRAD_INLINE static Vec<double> squares(const float* x) {
#ifdef __AVX512F__
  const Vec<double> a(_mm512_cvtps_pd(_mm256_loadu_ps(x)));
#else
  const Vec<double> a(_mm256_cvtps_pd(_mm_loadu_ps(x)));
#endif
  return a * a;
}

template <class T>
static double sum_squares_block(const T* x, i64 n) {
  constexpr i64 w = Vec<double>::width;
  Vec<double> s0(0.0), s1(0.0), s2(0.0), s3(0.0);
  i64 i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    s0 += squares(x + i);
    s1 += squares(x + i + w);
    s2 += squares(x + i + 2 * w);
    s3 += squares(x + i + 3 * w);
  }
  double total = sum((s0 + s1) + (s2 + s3));
  for (; i < n; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

template <class T>
void norm_and_clip(const T* x, i64 n, double max_norm, double* result) {
  constexpr i64 max_blocks = 256;
  const i64 length = larger(grain, ceil_divide(n, max_blocks));
  const i64 blocks = ceil_divide(n, length);
  double partial[max_blocks];
  parallel(blocks, 1, [&](i64 begin, i64 end) {
    for (i64 b = begin; b < end; ++b) partial[b] = sum_squares_block(x + b * length, smaller(length, n - b * length));
  });
  double total = 0;
  for (i64 b = 0; b < blocks; ++b) total += partial[b];
  result[0] = __builtin_sqrt(total);
  result[1] = clip_coefficient(result[0], max_norm);
}
SEQGRAD_INSTANTIATE(norm_and_clip)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
