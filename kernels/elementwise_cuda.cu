// The elementwise families, fill and affine.
#include "kernels/cuda_walk.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void fill(T* x, T value, i64 n) {
  each_element(n, [=] __device__(i64 i) { x[i] = value; });
}
SEQGRAD_INSTANTIATE(fill)

template <class T>
void affine(const T* x, T* y, T alpha, T beta, i64 n) {
  each_element(n, [=] __device__(i64 i) { y[i] = alpha * x[i] + beta; });
}
SEQGRAD_INSTANTIATE(affine)

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  each_element(n, [=] __device__(i64 i) { y[i] = Op::forward(x[i]); });
}

template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  each_element(n, [=] __device__(i64 i) { dx[i] = Op::backward(x[i], y[i], dy[i]); });
}

template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  const Walk at = walk(shape, a_strides, b_strides, ndim).merged();
  each_element(at.elements(), [=] __device__(i64 i) {
    i64 at_a, at_b;
    at.find(i, at_a, at_b);
    y[i] = Op::forward(a[at_a], b[at_b]);
  });
}

template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  const Walk at = walk(shape, a_strides, b_strides, ndim).merged();
  each_element(at.elements(), [=] __device__(i64 i) {
    i64 at_a, at_b;
    at.find(i, at_a, at_b);
    T da_i, db_i;
    Op::backward(a[at_a], b[at_b], y[i], dy[i], da_i, db_i);
    if (da) da[i] = da_i;
    if (db) db[i] = db_i;
  });
}

SEQGRAD_UNARY_OPS(SEQGRAD_INSTANTIATE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_INSTANTIATE_BINARY)

}  // namespace seqgrad::kernels::cuda
