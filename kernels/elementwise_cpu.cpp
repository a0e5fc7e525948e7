// The elementwise families, fill and affine, in vectors.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/strides.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void fill(T* x, T value, i64 n) {
  parallel(n, grain,
           [&](i64 begin, i64 end) { each<T>(begin, end, [&](i64 i, auto lanes) { lanes.store(x + i, Vec<T>(value)); }); });
}
SEQGRAD_INSTANTIATE(fill)

template <class T>
void affine(const T* x, T* y, T alpha, T beta, i64 n) {
  parallel(n, grain, [&](i64 begin, i64 end) {
    each<T>(begin, end, [&](i64 i, auto lanes) { lanes.store(y + i, fma(Vec<T>(alpha), lanes.load(x + i), Vec<T>(beta))); });
  });
}
SEQGRAD_INSTANTIATE(affine)

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  parallel(n, grain / 2, [&](i64 begin, i64 end) {
    each<T>(begin, end, [&](i64 i, auto lanes) { lanes.store(y + i, Op::forward(lanes.load(x + i))); });
  });
}

template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  parallel(n, grain, [&](i64 begin, i64 end) {
    each<T>(begin, end, [&](i64 i, auto lanes) {
      lanes.store(dx + i, Op::backward(lanes.load(x + i), lanes.load(y + i), lanes.load(dy + i)));
    });
  });
}

// How an operand moves along the innermost axis: side by side, standing still, or in steps of any size.
enum class Step { one, zero, any };

template <Step step, class T, class Lanes>
SEQGRAD_INLINE Vec<T> take(const T* x, i64 stride, i64 i, Lanes lanes) {
  if constexpr (step == Step::one) return lanes.load(x + i);
  if constexpr (step == Step::zero) return Vec<T>(*x);
  T gathered[Vec<T>::width] = {};
  for (i64 j = 0; j < lanes.count(); ++j) gathered[j] = x[(i + j) * stride];
  return Vec<T>::load(gathered);
}

// f(i, lanes, a, b) along one piece of the innermost axis.
template <class T, class F>
SEQGRAD_INLINE void each_pair(const T* a, i64 a_stride, const T* b, i64 b_stride, i64 n, F&& f) {
  const auto run = [&]<Step a_step, Step b_step>() {
    each<T>(0, n,
            [&](i64 i, auto lanes) { f(i, lanes, take<a_step>(a, a_stride, i, lanes), take<b_step>(b, b_stride, i, lanes)); });
  };
  if (a_stride == 1 && b_stride == 1) {
    run.template operator()<Step::one, Step::one>();
  } else if (a_stride == 1 && b_stride == 0) {
    run.template operator()<Step::one, Step::zero>();
  } else if (a_stride == 0 && b_stride == 1) {
    run.template operator()<Step::zero, Step::one>();
  } else {
    run.template operator()<Step::any, Step::any>();
  }
}

// f(i, lanes, a, b) over all elements of a broadcast, i being the place in the result.
template <class T, class F>
SEQGRAD_INLINE void each_broadcast(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const i64* shape,
                                   i64 ndim, F&& f) {
  Axes axes;
  if (ndim == 1) {
    axes.add(*shape, *a_strides, *b_strides);
  } else if (ndim > 1) {
    for (i64 i = 0; i < ndim; ++i) axes.add(shape[i], a_strides[i], b_strides[i]);
    axes.merge();
  }
  const int inner = axes.count - 1;
  const i64 a_step = inner < 0 ? 1 : axes.p[inner], b_step = inner < 0 ? 1 : axes.q[inner];
  parallel_pieces(axes, grain, [&](i64 a_at, i64 b_at, i64 at, i64 n) {
    each_pair(a + a_at, a_step, b + b_at, b_step, n,
              [&](i64 i, auto lanes, Vec<T> a_i, Vec<T> b_i) { f(at + i, lanes, a_i, b_i); });
  });
}

template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  each_broadcast(a, a_strides, b, b_strides, shape, ndim,
                 [&](i64 i, auto lanes, Vec<T> a_i, Vec<T> b_i) { lanes.store(y + i, Op::forward(a_i, b_i)); });
}

template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  each_broadcast(a, a_strides, b, b_strides, shape, ndim, [&](i64 i, auto lanes, Vec<T> a_i, Vec<T> b_i) {
    Vec<T> da_i, db_i;
    Op::backward(a_i, b_i, lanes.load(y + i), lanes.load(dy + i), da_i, db_i);
    if (da) lanes.store(da + i, da_i);
    if (db) lanes.store(db + i, db_i);
  });
}

SEQGRAD_UNARY_OPS(SEQGRAD_INSTANTIATE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_INSTANTIATE_BINARY)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
